// Layers 0 and 1: what the token is, and where the launch stands. Cells of layer 0 hold the current warp, block and
// cursor (the item that VAL1, VAL2 and MEM tokens continue) and assemble values and words from their chunks; layer 1
// looks up where a value is written back and which lanes are active.
#include "model/netlist/machine_builder.h"

namespace qgpu {
namespace {

int EmbeddedValue(Token token, int bit) {
  const int payload = token.payload;
  uint32_t value = 0;
  switch (token.kind) {
    case TokenKind::kVal0:
    case TokenKind::kVal0U:
      value = static_cast<uint32_t>(static_cast<int8_t>(payload & 255));
      break;
    case TokenKind::kVal1:
      value = static_cast<uint32_t>(static_cast<int32_t>(payload) << 20 >> 12);
      break;
    case TokenKind::kVal2:
      value = static_cast<uint32_t>(payload) << 20;
      break;
    case TokenKind::kCtaX:
    case TokenKind::kCtaY:
    case TokenKind::kCtaZ:
      value = payload;
      break;
    default:
      break;
  }
  return value >> bit & 1;
}

}  // namespace

std::vector<Head::Component> RowsOf(const std::vector<Linear>& bits, const Literals& extra) {
  std::vector<Head::Component> rows;
  for (int row = 0; row < 1 << bits.size(); ++row) {
    Literals literals = extra;
    for (size_t i = 0; i < bits.size(); ++i) literals.push_back(row >> i & 1 ? bits[i] : Not(bits[i]));
    rows.push_back({row, All(literals)});
  }
  return rows;
}

std::vector<Linear> Forms(const std::vector<Signal>& signals) { return {signals.begin(), signals.end()}; }

std::vector<Signal> Slice(const std::vector<Signal>& signals, int first, int count) {
  return {signals.begin() + first, signals.begin() + first + count};
}

std::vector<Linear> Forms(const std::vector<Signal>& signals, int first, int count) {
  return Forms(Slice(signals, first, count));
}

Linear MachineBuilder::IsValue() const {
  return Kind(TokenKind::kVal0) + Kind(TokenKind::kVal0U) + Kind(TokenKind::kVal1) + Kind(TokenKind::kVal2);
}

Linear MachineBuilder::IsWork() const {
  return IsValue() + Kind(TokenKind::kExec) + Kind(TokenKind::kPred) + Kind(TokenKind::kMem);
}

Head& MachineBuilder::NewHead(const std::string& name, int layer) {
  Head& head = net.AddHead(name, layer);
  head.reset = Kind(TokenKind::kReset);
  return head;
}

void MachineBuilder::Front() {
  for (int kind = 0; kind < kTokenKinds; ++kind) {
    machine.kind.push_back(net.Input(std::string("kind.") + TokenKindName(static_cast<TokenKind>(kind)),
                                     [kind](Token token) { return static_cast<int>(token.kind) == kind; }));
  }
  for (int bit = 0; bit < 12; ++bit) {
    f.push_back(net.Input(fmt::format("payload.on[{}]", bit),
                          [bit](Token token) { return PayloadMask(token.kind) >> bit & token.payload >> bit & 1; }));
    g.push_back(net.Input(fmt::format("payload.off[{}]", bit),
                          [bit](Token token) { return PayloadMask(token.kind) >> bit & ~(token.payload >> bit) & 1; }));
  }
  machine.payload_on = f;
  machine.payload_off = g;
  for (int bit = 0; bit < 32; ++bit) {
    data.push_back(net.Input(fmt::format("data[{}]", bit), [bit](Token token) { return EmbeddedValue(token, bit); }));
  }
  for (int bit = 32; bit < 64; ++bit) data.push_back(net.Bit(fmt::format("data[{}]", bit)));
  FrontCells();
  FrontTables();
  FrontEnables();
}

// Layer 0's heads: one row each, but for the assembly rows of the host's words.
void MachineBuilder::FrontCells() {
  const Linear exec = Kind(TokenKind::kExec), val0 = Kind(TokenKind::kVal0), val0u = Kind(TokenKind::kVal0U),
               val1 = Kind(TokenKind::kVal1), val2 = Kind(TokenKind::kVal2), pred = Kind(TokenKind::kPred);
  const auto cell = [this](const char* name, const Linear& write, const std::vector<Linear>& bits,
                           const Linear& read) -> Head& {
    Head& head = NewHead(name, 0);
    head.keys = {{0, 1.0}};
    head.queries = {{0, read}};
    head.write = write;
    StoreBits(head, 0, bits);
    PadCells(head, static_cast<int>(bits.size()), 64 - static_cast<int>(bits.size()), 1.0);
    return head;
  };
  const auto tap = [](Head& head, const std::vector<Signal>& targets) {
    for (size_t i = 0; i < targets.size(); ++i) head.taps.push_back({static_cast<int>(i), targets[i]});
  };

  warp = net.Bits("warp", 3);
  machine.warp_head = static_cast<int>(net.heads().size());
  tap(cell("warp", Kind(TokenKind::kSwitchWarp), Forms(f, 9, 3), 1.0), warp);

  block = net.Bits("block", 5);
  mask = net.Bits("mask", 4);
  started = net.Bit("started");
  std::vector<Linear> exec_bits = Forms(f, 4, 5);
  for (int i = 0; i < 4; ++i) exec_bits.push_back(f[i]);
  exec_bits.push_back(exec);
  machine.exec_head = static_cast<int>(net.heads().size());
  Head& exec_head = cell("exec", exec, exec_bits, 1.0);
  tap(exec_head, block);
  for (int i = 0; i < 4; ++i) exec_head.taps.push_back({5 + i, mask[i]});
  exec_head.taps.push_back({9, started});

  // The cursor: payload bits that a kind lacks have neither rail, so the off rail is given by the kind.
  cursor_lane = net.Bits("cursor.lane", 2);
  cursor_slot = net.Bits("cursor.slot", 2);
  cursor_uniform = net.Bit("cursor.uniform");
  cursor_valid = net.Bit("cursor.valid");
  Head& cursor = NewHead("cursor", 0);
  cursor.keys = {{0, 1.0}};
  cursor.queries = {{0, 1.0}};
  cursor.write = val0 + val0u + pred + exec;
  const Linear no_lane = val0u + pred;
  cursor.on = {{0, f[8]}, {1, f[9]}, {2, f[10]}, {3, f[11]}};
  cursor.off = {{0, g[8] + no_lane}, {1, g[9] + no_lane + exec}, {2, g[10] + exec}, {3, g[11] + exec}};
  StoreBits(cursor, 4, {val0u, Not(exec)});
  PadCells(cursor, 6, 58, 1.0);
  tap(cursor, {cursor_lane[0], cursor_lane[1], cursor_slot[0], cursor_slot[1], cursor_uniform, cursor_valid});

  tap(cell("chunk0", val0 + val0u, Forms(f, 0, 8), val1 + val2), Slice(data, 0, 8));
  tap(cell("chunk1", val1, Forms(f), val2), Slice(data, 8, 12));

  // Eight rows of eight bits in cells of their own: row = byte number, which VAL0 spells as slot (0, 1) and lane.
  Head& assembly = NewHead("assembly", 0);
  assembly.write = val0;
  const std::vector<Linear> byte_number = {f[8], f[9], f[10]};
  assembly.keys = RowsOf(byte_number, {val0, Not(f[11])});
  const Linear commits = Kind(TokenKind::kRow) + Kind(TokenKind::kSpecialRow) + Kind(TokenKind::kGrid);
  for (int row = 0; row < 8; ++row) {
    assembly.queries.push_back({row, commits});
    for (int i = 0; i < 8; ++i) {
      const Linear here = assembly.keys[row].condition;
      assembly.on.push_back({8 * row + i, All({here, f[i]})});
      assembly.off.push_back({8 * row + i, All({here, g[i]})});
      assembly.taps.push_back({8 * row + i, data[8 * row + i]});
    }
  }
}

// Layer 1's heads: the value that MW stores, the ROM row of slot 0 (see slot.cc), where values are written back, and
// whether the block is serial.
void MachineBuilder::FrontTables() {
  Head& value = NewHead("value", 1);
  value.keys = {{0, 1.0}};
  value.queries = {{0, Kind(TokenKind::kMemWord)}};
  value.write = IsValue();
  StoreBits(value, 0, Forms(data, 0, 32));
  PadCells(value, 32, 32, 1.0);

  const Linear row = Kind(TokenKind::kRow);
  write_row = net.Bits("write.row", 4);
  std::vector<Signal> write_op = net.Bits("write.op", 6);
  Head& table = NewHead("table", 1);
  std::vector<Linear> row_number = Forms(f, 4, 5);
  row_number.push_back(f[9]);
  row_number.push_back(f[10]);
  table.keys = RowsOf(row_number);
  table.write = All({row, Not(f[11])});
  std::vector<Linear> cursor_row = Forms(block);
  cursor_row.push_back(cursor_slot[0]);
  cursor_row.push_back(cursor_slot[1]);
  table.queries = RowsOf(cursor_row, {cursor_valid});
  StoreBits(table, 0, Forms(data, 0, 10));
  PadCells(table, 10, 54, 1.0);
  for (int i = 0; i < 6; ++i) table.taps.push_back({i, write_op[i]});
  for (int i = 0; i < 4; ++i) table.taps.push_back({6 + i, write_row[i]});

  Signal serial = net.Bit("serial");
  Head& serial_head = NewHead("serial", 1);
  serial_head.keys = RowsOf(Forms(f, 4, 5));
  serial_head.write = All({row, f[11]});
  serial_head.queries = RowsOf(Forms(block), {started});
  StoreBits(serial_head, 0, {data[20]});
  PadCells(serial_head, 1, 63, 1.0);
  serial_head.taps = {{0, serial}};

  // Enables of layer 1's MLP that need these.
  for (int q = 0; q < kLaneCount; ++q) {
    active[q] = net.Bit(fmt::format("active[{}]", q));
    Literals lowest = {mask[q], serial};
    for (int lower = 0; lower < q; ++lower) lowest.push_back(Not(mask[lower]));
    active_cases[q] = {{mask[q], Not(serial)}, lowest};
    for (const Literals& active_case : active_cases[q]) net.Restoring(1, active_case, {{active[q]}});
    write_register[q] = net.Bit(fmt::format("write.register[{}]", q));
    net.Restoring(1, Literals{IsValue(), started, Not(cursor_uniform)} + Equals(cursor_lane, q), {{write_register[q]}});
    for (const Literals& active_case : active_cases[q]) {
      net.Restoring(1, Literals{IsValue(), cursor_uniform} + active_case, {{write_register[q]}});
    }
  }
  write_memory = net.Bit("write.memory");
  net.Restoring(1, Literals{IsValue(), started} + Equals(write_op, static_cast<uint32_t>(Op::kSt)), {{write_memory}});
  write_predicate = net.Bit("write.predicate");
  net.Restoring(1, {Kind(TokenKind::kPred), started}, {{write_predicate}});

  // From here on the data include the current value on MW.
  std::vector<Signal> complete = net.Update(Slice(data, 0, 32));
  for (int i = 0; i < 32; ++i) {
    value.taps.push_back({i, complete[i]});
    data[i] = complete[i];
  }
}

// The word that a store token writes: base + lane, or MW's address. Low three bits and their carry in layer 1, the rest
// in layer 2.
void MachineBuilder::FrontEnables() {
  std::vector<Signal> base = net.Bits("store.base", 7);
  Head& head = NewHead("base", 0);
  head.keys = {{0, 1.0}};
  head.queries = {{0, IsValue()}};
  head.write = Kind(TokenKind::kMem);
  StoreBits(head, 0, Forms(f, 0, 7));
  PadCells(head, 7, 57, 1.0);
  for (int i = 0; i < 7; ++i) head.taps.push_back({i, base[i]});

  std::vector<Signal> address = net.Bits("store.address", 7);
  Signal carry = net.Bit("store.carry");
  const Linear low = Linear(base[0]) + 2.0 * Linear(base[1]) + 4.0 * Linear(base[2]) + Linear(cursor_lane[0]) +
                     2.0 * Linear(cursor_lane[1]);
  for (int t = 1; t <= 10; ++t) {
    std::vector<Output> outputs;
    for (int bit = 0; bit < 3; ++bit) {
      const int change = (t >> bit & 1) - ((t - 1) >> bit & 1);
      if (change != 0) outputs.push_back({address[bit], static_cast<double>(change)});
    }
    if (t == 8) outputs.push_back({carry});
    net.Step(1, {IsValue()}, low - Linear(t - 1), outputs);
  }
  for (int bit = 3; bit < 7; ++bit) net.And(1, {base[bit]}, {{address[bit]}});
  for (int bit = 0; bit < 7; ++bit) net.And(1, {Kind(TokenKind::kMemWord), f[bit]}, {{address[bit]}});
  store_address = Slice(address, 0, 3);
  for (int bit = 3; bit < 7; ++bit) {
    const Signal complete = net.Update(address[bit]);
    Literals literals = {carry};
    for (int lower = 3; lower < bit; ++lower) literals.push_back(address[lower]);
    net.Flip(2, literals, address[bit], complete);
    store_address.push_back(complete);
  }
}

}  // namespace qgpu

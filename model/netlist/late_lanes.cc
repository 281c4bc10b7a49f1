// Lanes of all warps: where each one stands, who is ready, who runs next.
#include "model/netlist/late_builder.h"

namespace qgpu {

// Lane records: (exited, phase, block) of eight warps, all read at once; and the current warp's once more.
void LateBuilder::LaneRecords() {
  for (int q = 0; q < kLaneCount; ++q) {
    const std::vector<Signal> fields = {next_[q].exited,   next_[q].phase,    next_[q].block[0], next_[q].block[1],
                                        next_[q].block[2], next_[q].block[3], next_[q].block[4]};
    Head& all = m_.NewHead(fmt::format("lane{}.records", q), e_ + 1);
    all.keys = RowsOf(Forms(record_warp_));
    all.write = write_record_[q];
    for (int w = 0; w < kWarps; ++w) {
      all.queries.push_back({w, 1.0});
      const Literals here = Equals(record_warp_, w);
      const std::string name = fmt::format("lane{}.warp{}", q, w);
      Record& record = records_[w][q];
      record = {net_.Bit(name + ".exited"), net_.Bit(name + ".phase"), net_.Bits(name + ".block", 5)};
      for (int i = 0; i < 7; ++i) {
        all.on.push_back({8 * w + i, All(here + Literals{fields[i]})});
        all.off.push_back({8 * w + i, All(here + Literals{Not(fields[i])})});
        all.taps.push_back({8 * w + i, i == 0 ? record.exited : i == 1 ? record.phase : record.block[i - 2]});
      }
      all.on.push_back({8 * w + 7, All(here)});
    }
    Head& one = m_.NewHead(fmt::format("lane{}.record", q), e_ + 1);
    one.keys = RowsOf(Forms(record_warp_));
    one.write = write_record_[q];
    one.queries = RowsOf(Forms(m_.warp));
    StoreBits(one, 0, Forms(fields));
    PadCells(one, 7, 57, 1.0);
    const std::string name = fmt::format("lane{}.current", q);
    Record& record = current_[q];
    record = {net_.Bit(name + ".exited"), net_.Bit(name + ".phase"), net_.Bits(name + ".block", 5)};
    for (int i = 0; i < 7; ++i) {
      one.taps.push_back({i, i == 0 ? record.exited : i == 1 ? record.phase : record.block[i - 2]});
    }
  }
  // Which lanes each warp of a thread block has: the next warp's on WARP, warp 0's on a new thread block.
  Head& exist = m_.NewHead("lanes_of_warp", e_ + 1);
  const Linear is_warp = Kind(TokenKind::kWarp);
  exist.keys = RowsOf(Forms(m_.f, 9, 3));
  exist.write = is_warp;
  for (int i = 0; i < kLaneCount; ++i) {
    exist.on.push_back({i, m_.f[i]});
    exist.off.push_back({i, m_.g[i]});
  }
  PadCells(exist, 4, 60, 1.0);
  exist.queries.push_back({0, Kind(TokenKind::kCtaX) + Kind(TokenKind::kCtaY) + Kind(TokenKind::kCtaZ)});
  for (int w = 1; w < kWarps; ++w) {
    exist.queries.push_back({w, All(Literals{is_warp} + Equals(Slice(m_.f, 9, 3), w - 1))});
  }
  next_lanes_ = net_.Bits("next_warp.lanes", 4);
  for (int i = 0; i < kLaneCount; ++i) exist.taps.push_back({i, next_lanes_[i]});
}

void LateBuilder::Readiness() {
  const int layer = e_ + 1;
  const auto ready = [&](const Record& record, Signal out) {
    net_.Restoring(layer, {Not(record.exited), record.phase, phase_}, {{out}});
    net_.Restoring(layer, {Not(record.exited), Not(record.phase), Not(phase_)}, {{out}});
  };
  Linear live = 32.0;
  std::array<Linear, 5> ones;
  for (int w = 0; w < kWarps; ++w) {
    for (int q = 0; q < kLaneCount; ++q) {
      const Record& record = records_[w][q];
      ready_[w][q] = net_.Bit(fmt::format("lane{}.warp{}.ready", q, w));
      ready(record, ready_[w][q]);
      live += -1.0 * Linear(record.exited);
      for (int i = 0; i < 5; ++i) ones[i] += record.block[i];
    }
  }
  alive_ = net_.Bit("alive");
  net_.Step(layer, {}, live, {{alive_}});
  // Bits of the waiting lanes' block that do not agree; exited lanes have block 0.
  apart_bits_ = net_.Count("apart_bits", 5);
  for (int i = 0; i < 5; ++i) {
    net_.Step(layer, {}, ones[i], {{apart_bits_}});
    net_.Step(layer, {}, ones[i] - live + 1.0, {{apart_bits_, -1}});
  }
  // Nobody alive: the second step above holds without the first.
  net_.Step(layer, {}, 1.0 - live, {{apart_bits_, 5}});
  for (int q = 0; q < kLaneCount; ++q) {
    current_ready_[q] = net_.Bit(fmt::format("lane{}.current.ready", q));
    ready(current_[q], current_ready_[q]);
    for (int other = 0; other < kLaneCount; ++other) {
      if (other == q) continue;
      blocked_[q][other] = net_.Bit(fmt::format("lane{}.behind[{}]", q, other));
      Linear ahead;
      for (int i = 0; i < 5; ++i) {
        ahead += static_cast<double>(1 << i) * (Linear(current_[q].block[i]) - current_[other].block[i]);
      }
      const Record& record = current_[other];
      net_.Step(layer, {Not(record.exited), record.phase, phase_}, ahead, {{blocked_[q][other]}});
      net_.Step(layer, {Not(record.exited), Not(record.phase), Not(phase_)}, ahead, {{blocked_[q][other]}});
    }
  }
}

// What the schedule needs, and the chain of tokens that starts a thread block.
void LateBuilder::Schedule() {
  const int layer = e_ + 2;
  Linear ready_here, ready_anywhere;
  Literals none_here;
  for (int q = 0; q < kLaneCount; ++q) {
    run_[q] = net_.Bit(fmt::format("lane{}.run", q));
    Literals lowest = {current_ready_[q]};
    for (int other = 0; other < kLaneCount; ++other) {
      if (other != q) lowest.push_back(Not(blocked_[q][other]));
    }
    net_.Restoring(layer, lowest, {{run_[q]}});
    ready_here += current_ready_[q];
    none_here.push_back(Not(current_ready_[q]));
  }
  for (int w = 0; w < kWarps; ++w) {
    warp_ready_[w] = net_.Bit(fmt::format("warp{}.ready", w));
    Linear lanes;
    for (int q = 0; q < kLaneCount; ++q) lanes += ready_[w][q];
    net_.Step(layer, {}, lanes, {{warp_ready_[w]}});
    ready_anywhere += lanes;
  }
  any_here_ = net_.Bit("any_ready_here");
  net_.Step(layer, {}, ready_here, {{any_here_}});
  switches_ = net_.Bit("switches");
  const Linear elsewhere = ready_anywhere - ready_here;
  net_.Step(layer, {yields_}, elsewhere, {{switches_}});
  net_.Step(layer, Literals{Not(yields_)} + none_here, elsewhere, {{switches_}});
  apart_ = net_.Bit("waiting_apart");
  net_.Step(layer, {}, apart_bits_, {{apart_}});

  for (Signal* s : {&do_next_warp_, &do_warp0_, &do_ctay_, &do_ctaz_}) *s = net_.Bit("chain");
  net_.Restoring(layer, {Kind(TokenKind::kWarp), next_lanes_[0]}, {{do_next_warp_}});
  Literals zero;
  for (int i = 0; i < 8; ++i) zero.push_back(m_.g[i]);
  net_.And(layer, {Kind(TokenKind::kCtaX)}, {{do_warp0_}});
  net_.And(layer, {Kind(TokenKind::kCtaY)}, {{do_warp0_}});
  net_.And(layer, {Kind(TokenKind::kCtaZ)}, {{do_warp0_}});
  net_.And(layer, Literals{Kind(TokenKind::kCtaX)} + zero, {{do_warp0_, -1}, {do_ctay_}});
  net_.And(layer, Literals{Kind(TokenKind::kCtaY)} + zero, {{do_warp0_, -1}, {do_ctaz_}});
}

}  // namespace qgpu

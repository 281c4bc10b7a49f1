#include <cmath>
#include <functional>
#include <limits>

#include "common/sha256.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/weights/circuit.h"
#include "model/weights/synthetic_circuit.h"
#include "nlohmann/json.hpp"

namespace qgpu {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr size_t kPreamble = 80;

Circuit SmallCircuit() { return MakeAnalogCircuit({}, 1); }

std::string Message(const absl::StatusOr<Circuit>& parsed) {
  return parsed.ok() ? "accepted" : std::string(parsed.status().message());
}

void PutInteger(std::string& bytes, size_t at, uint32_t value) {
  for (int i = 0; i < 4; ++i) bytes[at + i] = static_cast<char>(value >> 8 * i & 255);
}

size_t HeaderSize(const std::string& bytes) {
  size_t size = 0;
  for (int i = 3; i >= 0; --i) size = size << 8 | static_cast<unsigned char>(bytes[12 + i]);
  return size;
}

// A file whose header (and payload) was edited and sealed again, as a hostile writer would.
std::string Edited(const Circuit& circuit, const std::function<void(json&, std::string&)>& edit) {
  const std::string bytes = SerializeCircuit(circuit);
  json header = json::parse(bytes.substr(kPreamble, HeaderSize(bytes)));
  std::string payload = bytes.substr(kPreamble + HeaderSize(bytes));
  edit(header, payload);
  for (json& entry : header["tensors"]) {
    if (!entry.is_object() || !entry.contains("seal")) continue;
    entry.erase("seal");
    entry["sha256"] = Sha256Hex(payload.substr(entry["offset"], entry["bytes"]));
  }
  const std::string text = header.dump();
  std::string out = bytes.substr(0, 12) + "0000" + Sha256Hex(text) + text + payload;
  PutInteger(out, 12, static_cast<uint32_t>(text.size()));
  return out;
}

json& Entry(json& header, const std::string& name) {
  for (json& entry : header["tensors"]) {
    if (entry["name"] == name) return entry;
  }
  ADD_FAILURE() << "no tensor " << name;
  return header["tensors"][0];
}

TEST(CircuitFile, RoundTripIsExact) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const Circuit analog = MakeAnalogCircuit({}, seed);
    const absl::StatusOr<Circuit> back = ParseCircuit(SerializeCircuit(analog));
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_TRUE(*back == analog);
  }
  Circuit digital = MakeDigitalCircuit({}, 1);
  digital.notes["layers.1.dim.7"] = "operand a, bit 3 \xc3\xa9";
  const absl::StatusOr<Circuit> back = ParseCircuit(SerializeCircuit(digital));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_TRUE(*back == digital);
  EXPECT_EQ(SerializeCircuit(*back), SerializeCircuit(digital));
}

TEST(CircuitFile, LayersWithoutHeadsOrNeurons) {
  AnalogShape shape;
  shape.heads = 0;
  Circuit circuit = MakeAnalogCircuit(shape, 3);
  circuit.cells.clear();
  const absl::StatusOr<Circuit> back = ParseCircuit(SerializeCircuit(circuit));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_TRUE(*back == circuit);
  shape = {};
  shape.neurons = 0;
  EXPECT_TRUE(ParseCircuit(SerializeCircuit(MakeAnalogCircuit(shape, 3))).ok());
}

// The bytes are a promise across machines and compilers, so one file's hash is written down.
TEST(CircuitFile, SameBytesEverywhere) { EXPECT_EQ(CircuitHash(MakeDigitalCircuit({}, 1)), "a6ae00630c0e8762"); }

TEST(CircuitFile, OtherVersionNamesBoth) {
  std::string bytes = SerializeCircuit(SmallCircuit());
  bytes[8] = 7;
  const absl::StatusOr<Circuit> parsed = ParseCircuit(bytes);
  EXPECT_EQ(parsed.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(parsed), HasSubstr("version 7"));
  EXPECT_THAT(Message(parsed), HasSubstr("version 1"));
}

TEST(CircuitFile, NotACircuit) {
  EXPECT_THAT(Message(ParseCircuit("")), HasSubstr("not a circuit file"));
  EXPECT_THAT(Message(ParseCircuit(std::string(4096, 'x'))), HasSubstr("not a circuit file"));
}

TEST(CircuitFile, EveryTruncationIsRefused) {
  const std::string bytes = SerializeCircuit(SmallCircuit());
  for (size_t size = 0; size < bytes.size(); size += size < 200 ? 1 : 997) {
    EXPECT_EQ(ParseCircuit(bytes.substr(0, size)).status().code(), absl::StatusCode::kInvalidArgument) << size;
  }
  EXPECT_THAT(Message(ParseCircuit(bytes.substr(0, bytes.size() - 1))), HasSubstr("layers.1.mlp.down: needs payload"));
  EXPECT_THAT(Message(ParseCircuit(bytes + "x")), HasSubstr("1 bytes after the last tensor"));
}

TEST(CircuitFile, EveryFlippedByteIsRefused) {
  const std::string bytes = SerializeCircuit(SmallCircuit());
  for (size_t at = 0; at < bytes.size(); at += at < kPreamble ? 1 : 211) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    EXPECT_FALSE(ParseCircuit(damaged).ok()) << at;
  }
}

TEST(CircuitFile, FlippedByteNamesLayerAndTensor) {
  const std::string bytes = SerializeCircuit(SmallCircuit());
  const size_t header_size = HeaderSize(bytes);
  json header = json::parse(bytes.substr(kPreamble, header_size));
  for (const json& entry : header["tensors"]) {
    std::string damaged = bytes;
    const size_t at = kPreamble + header_size + entry["offset"].get<size_t>() + entry["bytes"].get<size_t>() / 2;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    EXPECT_EQ(Message(ParseCircuit(damaged)), entry["name"].get<std::string>() + ": checksum mismatch");
  }
}

TEST(CircuitFile, HostileHeaders) {
  struct Case {
    const char* expected;
    std::function<void(json&, std::string&)> edit;
  };
  const Case cases[] = {
      {"overlap", [](json& h, std::string&) { Entry(h, "layers.0.mixer.k")["offset"] = 0; }},
      {"gap", [](json& h, std::string&) { Entry(h, "layers.0.mixer.k")["offset"] = 1 << 30; }},
      {"offset is -4", [](json& h, std::string&) { Entry(h, "layers.0.mixer.k")["offset"] = -4; }},
      {"offset is not an integer",
       [](json& h, std::string&) { Entry(h, "layers.0.mixer.k")["offset"] = 18446744073709551615u; }},
      {"bytes declared, its shape needs", [](json& h, std::string&) { Entry(h, "layers.1.mlp.up")["bytes"] = 4; }},
      {"layers.1.mlp.up: shape", [](json& h, std::string&) { Entry(h, "layers.1.mlp.up")["rows"] = 1 << 20; }},
      {"nonzeros is", [](json& h, std::string&) { Entry(h, "layers.1.mlp.up")["nonzeros"] = 1 << 30; }},
      {"nonzeros is missing", [](json& h, std::string&) { Entry(h, "layers.1.mlp.up").erase("nonzeros"); }},
      {"where layers.0.mixer.q is due", [](json& h, std::string&) { Entry(h, "layers.0.mixer.q")["name"] = "x"; }},
      {"31 tensors, expected 32", [](json& h, std::string&) { h["tensors"].erase(3); }},
      {"width is 1281", [](json& h, std::string&) { h["width"] = 1281; }},
      {"width is missing", [](json& h, std::string&) { h.erase("width"); }},
      {"width is not an integer", [](json& h, std::string&) { h["width"] = "20"; }},
      {"heads is 17", [](json& h, std::string&) { h["layers"][0]["heads"] = 17; }},
      {"neurons is 6145", [](json& h, std::string&) { h["layers"][0]["neurons"] = 6145; }},
      {"46 layers", [](json& h, std::string&) { h["layers"] = std::vector<json>(46, h["layers"][0]); }},
      {"machine_ids is 16385", [](json& h, std::string&) { h["machine_ids"] = 16385; }},
      {"norm_eps", [](json& h, std::string&) { h["norm_eps"] = "small"; }},
      {"norm_eps", [](json& h, std::string&) { h["norm_eps"] = -1; }},
      {"text_flag_dimension", [](json& h, std::string&) { h["text_flag_dimension"] = 20; }},
      {"cells.memory.layer", [](json& h, std::string&) { h["cells"]["memory"]["layer"] = 2; }},
      {"cells.memory.head", [](json& h, std::string&) { h["cells"]["memory"]["head"] = 2; }},
      {"cells.memory.rows", [](json& h, std::string&) { h["cells"]["memory"]["rows"] = 129; }},
      {"cells.memory.dims", [](json& h, std::string&) { h["cells"]["memory"]["dims"] = {1, 64}; }},
      {"dimension 1 twice", [](json& h, std::string&) { h["cells"]["memory"]["dims"] = {1, 1}; }},
      {"notes", [](json& h, std::string&) { h["notes"] = 3; }},
      {"geometry is missing", [](json& h, std::string&) { h["geometry"] = json::array(); }},
      {"geometry.lanes", [](json& h, std::string&) { h["geometry"]["lanes"] = 0; }},
      {"name is missing", [](json& h, std::string&) { h["tensors"][2] = json::array({1, 2}); }},
  };
  for (const Case& c : cases) {
    const absl::StatusOr<Circuit> parsed = ParseCircuit(Edited(SmallCircuit(), c.edit));
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << c.expected;
    if (std::string(c.expected) == "overlap" || std::string(c.expected) == "gap") {
      EXPECT_THAT(Message(parsed), HasSubstr("layers.0.mixer.k: starts at byte"));
    } else {
      EXPECT_THAT(Message(parsed), HasSubstr(c.expected));
    }
  }
  EXPECT_TRUE(ParseCircuit(Edited(SmallCircuit(), [](json&, std::string&) {})).ok());
}

// Payload damage that was sealed again: found by meaning, not by checksum.
TEST(CircuitFile, HostilePayloads) {
  const Circuit circuit = SmallCircuit();
  const size_t nonzeros = circuit.layers[1].gate.nonzeros(), rows = circuit.layers[1].gate.rows;
  const auto edited = [&](size_t offset, std::string bytes) {
    return Message(ParseCircuit(Edited(circuit, [&](json& h, std::string& payload) {
      json& entry = Entry(h, "layers.1.mlp.gate");
      payload.replace(entry["offset"].get<size_t>() + offset, bytes.size(), bytes);
      entry["seal"] = true;
    })));
  };
  const size_t cols = rows * 4, values = cols + nonzeros * 2;
  EXPECT_THAT(edited(0, std::string("\xff\xff\xff\x7f", 4)), HasSubstr("layers.1.mlp.gate: row 0 ends at"));
  EXPECT_THAT(edited(8, std::string(4, '\0')), HasSubstr("layers.1.mlp.gate: row 2 ends at"));
  EXPECT_THAT(edited(rows * 4 - 4, std::string("\x01\x00\x00\x00", 4)), HasSubstr("layers.1.mlp.gate: row"));
  EXPECT_THAT(edited(cols, std::string("\xff\xff", 2)), HasSubstr("weight 0 has a column out of range"));
  EXPECT_THAT(edited(cols, std::string("\x13\x00\x12\x00", 4)), HasSubstr("weight 1 is not after the one before it"));
  EXPECT_THAT(edited(values + 2, std::string("\x80\x7f", 2)), HasSubstr("weight 1 is not finite"));
  EXPECT_THAT(edited(values + 2, std::string("\xc0\x7f", 2)), HasSubstr("weight 1 is not finite"));
  EXPECT_THAT(edited(values + 2, std::string("\x00\x80", 2)), HasSubstr("weight 1 is zero"));
  const std::string infinite_norm = Message(ParseCircuit(Edited(circuit, [&](json& h, std::string& payload) {
    json& entry = Entry(h, "layers.0.post_norm");
    payload.replace(entry["offset"].get<size_t>() + 8, 4, std::string("\x00\x00\x80\x7f", 4));
    entry["seal"] = true;
  })));
  EXPECT_EQ(infinite_norm, "layers.0.post_norm: value 2 is not finite");
}

TEST(ValidateCircuit, FindsWhatABuilderCouldGetWrong) {
  const auto message = [](const std::function<void(Circuit&)>& edit) {
    Circuit circuit = SmallCircuit();
    edit(circuit);
    return std::string(ValidateCircuit(circuit).message());
  };
  EXPECT_EQ(message([](Circuit&) {}), "");
  EXPECT_THAT(message([](Circuit& c) { c.layers[1].up.value[3] = 1.0001f; }),
              HasSubstr("layers.1.mlp.up: weight 3 is not exact in bfloat16"));
  EXPECT_THAT(message([](Circuit& c) { c.layers[0].q.row.pop_back(); }), HasSubstr("layers.0.mixer.q"));
  EXPECT_THAT(message([](Circuit& c) { std::swap(c.layers[0].q.value[0], c.layers[0].q.value[1]); }), "");
  EXPECT_THAT(message([](Circuit& c) { std::swap(c.layers[0].q.row.front(), c.layers[0].q.row.back()); }),
              HasSubstr("layers.0.mixer.q: weight 1 is not after"));
  EXPECT_THAT(message([](Circuit& c) { c.layers[0].dt_bias.push_back(0); }), HasSubstr("layers.0.mixer.dt_bias"));
  EXPECT_THAT(message([](Circuit& c) { c.final_norm[0] = std::numeric_limits<float>::quiet_NaN(); }),
              HasSubstr("final_norm: value 0 is not finite"));
  EXPECT_THAT(message([](Circuit& c) { c.layers.clear(); }), HasSubstr("layers: 0"));
}

TEST(CorruptCircuit, NegatesOneWeightInDocumentedOrder) {
  const Circuit original = SmallCircuit();
  const CircuitLayer& layer = original.layers[1];
  const std::pair<const char*, const SparseMatrix*> order[] = {
      {"layers.1.mixer.q", &layer.q},     {"layers.1.mixer.k", &layer.k},     {"layers.1.mixer.v", &layer.v},
      {"layers.1.mixer.z", &layer.z},     {"layers.1.mixer.b", &layer.b},     {"layers.1.mixer.a", &layer.a},
      {"layers.1.mixer.out", &layer.out}, {"layers.1.mlp.gate", &layer.gate}, {"layers.1.mlp.up", &layer.up},
      {"layers.1.mlp.down", &layer.down}};
  int64_t first = 0;
  for (const auto& [name, matrix] : order) {
    for (size_t at : {size_t{0}, matrix->nonzeros() - 1}) {
      Circuit circuit = original;
      const absl::StatusOr<CorruptedWeight> weight = CorruptCircuit(circuit, 1, first + static_cast<int64_t>(at));
      ASSERT_TRUE(weight.ok()) << weight.status();
      EXPECT_EQ(weight->tensor, name);
      EXPECT_EQ(weight->row, matrix->row[at]);
      EXPECT_EQ(weight->col, matrix->col[at]);
      EXPECT_EQ(weight->before, matrix->value[at]);
      EXPECT_EQ(weight->after, -matrix->value[at]);
      EXPECT_FALSE(circuit == original);
      const absl::StatusOr<Circuit> resealed = ParseCircuit(SerializeCircuit(circuit));
      ASSERT_TRUE(resealed.ok()) << resealed.status();
      EXPECT_TRUE(*resealed == circuit);
      EXPECT_NE(CircuitHash(circuit), CircuitHash(original));
    }
    first += static_cast<int64_t>(matrix->nonzeros());
  }
  Circuit circuit = original;
  EXPECT_EQ(CorruptCircuit(circuit, 1, first).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(CorruptCircuit(circuit, 1, -1).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(CorruptCircuit(circuit, 1, -1).status().message(),
            fmt::format("weight -1: layer 1 has {} non-zero weights", first));
  EXPECT_EQ(CorruptCircuit(circuit, 2, 0).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_TRUE(circuit == original);
}

}  // namespace
}  // namespace qgpu

// The export: its files are the merged model's, and an interruption at any point leaves nothing that looks whole and
// nothing that has to be made again.
#include "model/merge/export.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <utility>

#include "common/file.h"
#include "common/prng.h"
#include "common/sha256.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/base/checkpoint.h"
#include "model/base/inspect.h"
#include "model/base/random_base.h"
#include "model/merge/merged_model.h"
#include "model/merge/read_tensor.h"
#include "model/merge/test_circuit.h"
#include "model/merge/tokenizer_files.h"
#include "model/weights/synthetic_circuit.h"
#include "nlohmann/json.hpp"

namespace qgpu {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Files = std::map<std::string, std::string>;  // bytes by name

ModelShape BaseShape(int64_t hidden) {
  ModelShape shape = EmbeddedBaseShape();
  shape.hidden = hidden;
  shape.intermediate = 40;
  shape.layers = {LayerType::kLinearAttention, LayerType::kFullAttention};
  shape.linear_value_heads = 4;
  return shape;
}

class Export : public testing::Test {
 protected:
  void SetUp() override {
    directory_ =
        testing::TempDir() + "/qgpu_export_test_" + testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(directory_);
    out_ = directory_ + "/out";
    circuit_ = WithFreeTextFlag(MakeDigitalCircuit({.layers = 2, .heads = 3}, 1));
    ASSERT_TRUE(WriteRandomBase(directory_ + "/base", BaseShape(circuit_.base_hidden), 9, StoredType::kFloat32).ok());
    base_ = Checkpoint::Open(directory_ + "/base").value();
  }
  void TearDown() override { fs::remove_all(directory_); }

  ExportOptions Options() const {
    ExportOptions options;
    options.token_text = [](int32_t id) { return fmt::format("<|test_{}|>", id); };
    options.done_id = 63;
    options.shard_bytes = 1 << 20;
    return options;
  }
  absl::Status Run(const ExportOptions& options) const {
    return ExportDense(circuit_, directory_ + "/base", out_, options);
  }
  absl::Status Run() const { return Run(Options()); }
  static Files ReadAll(const std::string& directory) {
    Files files;
    for (const auto& entry : fs::directory_iterator(directory)) {
      files[entry.path().filename()] = ReadFile(entry.path()).value();
    }
    return files;
  }
  // What an export that nothing disturbs gives.
  Files Expected() const {
    EXPECT_TRUE(ExportDense(circuit_, directory_ + "/base", directory_ + "/expected", Options()).ok());
    return ReadAll(directory_ + "/expected");
  }
  // Runs the export in a child that is killed once it has written so many bytes.
  void RunAndKillAt(uint64_t bytes) const {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ExportOptions options = Options();
      options.progress = [bytes](uint64_t done, uint64_t) {
        if (done >= bytes) kill(getpid(), SIGKILL);
      };
      _exit(Run(options).ok() ? 0 : 1);
    }
    int end = 0;
    ASSERT_EQ(waitpid(child, &end, 0), child);
    ASSERT_TRUE(WIFSIGNALED(end)) << "the export ended before " << bytes << " bytes";
  }
  // There is no `out`, and what there is beside it is no checkpoint.
  void ExpectNothingLooksWhole() const {
    EXPECT_FALSE(fs::exists(out_));
    EXPECT_FALSE(Checkpoint::Open(out_ + ".partial").ok());
    EXPECT_FALSE(fs::exists(out_ + ".partial/config.json"));
  }

  std::string directory_, out_;
  Circuit circuit_;
  std::shared_ptr<const Checkpoint> base_;
};

TEST_F(Export, IsTheMergedModelAndItsManifestIsTrue) {
  ExportOptions options = Options();
  uint64_t done = 0, total = 0;
  options.progress = [&](uint64_t d, uint64_t t) { done = d, total = t; };
  const std::string& out = out_;
  const absl::Status status = ExportDense(circuit_, directory_ + "/base", out + "/", options);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(done, total);
  EXPECT_GT(total, uint64_t{4} << 20);

  const auto exported = Checkpoint::Open(out).value();
  const auto model = MergedModel::Create(circuit_, base_).value();
  EXPECT_EQ(exported->shape(), model->shape());
  for (const TensorSpec& spec : model->tensors())
    EXPECT_EQ(ReadTensor(*exported, spec.name), ReadTensor(*model, spec.name)) << spec.name;

  const json manifest = json::parse(ReadFile(out + "/qgpu_manifest.json").value());
  EXPECT_EQ(manifest["circuit"], CircuitHash(circuit_));
  int64_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(out)) {
    const std::string name = entry.path().filename();
    if (name == "qgpu_manifest.json") continue;
    ++files;
    EXPECT_EQ(manifest["files"][name]["sha256"], Sha256Hex(ReadFile(entry.path()).value())) << name;
    EXPECT_EQ(manifest["files"][name]["bytes"], entry.file_size()) << name;
  }
  EXPECT_EQ(files, static_cast<int64_t>(manifest["files"].size()));
  EXPECT_EQ(json::parse(ReadFile(out + "/generation_config.json").value())["eos_token_id"], json({256, 512 + 63}));

  EXPECT_THAT(InspectCheckpoint(out, {.all_bytes = true})->damage, IsEmpty());
  EXPECT_EQ(Run().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_FALSE(fs::exists(out + ".partial"));
}

TEST_F(Export, RefusalsLeaveNothingBehind) {
  ASSERT_TRUE(WriteFileAtomically(directory_ + "/base/tokenizer.json", "{}").ok());
  EXPECT_THAT(std::string(Run().message()), HasSubstr("base/tokenizer.json"));
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_), {}), 1);  // the base only
  EXPECT_FALSE(ExportDense(circuit_, directory_ + "/none", out_, Options()).ok());
  EXPECT_FALSE(fs::exists(out_));
}

TEST_F(Export, KilledAnywhereItGoesOnWhereItStood) {
  const Files expected = Expected();
  uint64_t total = 0;
  ExportOptions options = Options();
  options.progress = [&total](uint64_t, uint64_t all) { total = all; };
  ASSERT_TRUE(Run(options).ok());
  SplitMix64 random(5);
  for (int trial = 0; trial < 6; ++trial) {
    fs::remove_all(out_);
    uint64_t at = 0;
    for (int kills = 0; kills < 3; ++kills) {  // one after the other, each further on
      at += 1 + random.Below(static_cast<uint32_t>((total - at) / 2));
      RunAndKillAt(at);
      ExpectNothingLooksWhole();
    }
    const absl::Status status = Run();
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(ReadAll(out_), expected) << "trial " << trial;
    EXPECT_FALSE(fs::exists(out_ + ".partial"));
  }
}

TEST_F(Export, CompleteShardsAreNotWrittenAgainUnlessDamaged) {
  const Files expected = Expected();
  RunAndKillAt(5 << 20);
  const auto shard = [&](int i) {
    return fmt::format("{}.partial/model-{:05}-of-{:05}.safetensors", out_, i,
                       std::count_if(expected.begin(), expected.end(),
                                     [](const auto& file) { return file.first.starts_with("model-"); }));
  };
  ASSERT_TRUE(fs::exists(shard(2))) << shard(2);
  std::string bytes = ReadFile(shard(2)).value();
  bytes[bytes.size() / 2] ^= 1;
  ASSERT_TRUE(WriteFileAtomically(shard(2), bytes).ok());
  const auto written = fs::last_write_time(shard(1));
  ExportOptions options = Options();
  uint64_t first_report = 0;
  options.progress = [&](uint64_t done, uint64_t) { first_report = first_report == 0 ? done : first_report; };
  ASSERT_TRUE(Run(options).ok());
  EXPECT_GT(first_report, fs::file_size(out_ + "/" + fs::path(shard(1)).filename().string()) / 2);
  EXPECT_EQ(fs::last_write_time(out_ + "/" + fs::path(shard(1)).filename().string()), written);
  EXPECT_EQ(ReadAll(out_), expected);
}

TEST_F(Export, AnotherExportDoesNotGoOnWithIt) {
  RunAndKillAt(5 << 20);
  ExportOptions other = Options();
  other.type = DataType::kBFloat16;
  uint64_t first_report = 0;
  other.progress = [&](uint64_t done, uint64_t) { first_report = first_report == 0 ? done : first_report; };
  const absl::Status status = Run(other);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_LT(first_report, uint64_t{1} << 20);
  EXPECT_EQ(Checkpoint::Open(out_).value()->StoredTypeName(), "bfloat16");
  EXPECT_THAT(InspectCheckpoint(out_, {.all_bytes = true})->damage, IsEmpty());
}

// A limit on the size of files stands for a full disk: writing fails in the middle of a shard.
TEST_F(Export, DiskFullIsSaidAndGoesOnWhenThereIsSpace) {
  const Files expected = Expected();
  std::vector<size_t> sizes;
  for (const auto& [name, bytes] : expected) {
    if (name.starts_with("model-")) sizes.push_back(bytes.size());
  }
  const auto larger = std::find_if(sizes.begin() + 1, sizes.end(), [&](size_t size) { return size > sizes[0]; });
  ASSERT_NE(larger, sizes.end()) << "no later shard is larger than the first";
  struct rlimit before, low;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  low = before;
  low.rlim_cur = *larger - 1000;
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
  const absl::Status status = Run();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);

  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("the same command goes on there"));
  ExpectNothingLooksWhole();
  for (const auto& entry : fs::directory_iterator(out_ + ".partial")) {
    EXPECT_NE(entry.path().extension(), ".part") << entry.path();
  }
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(ReadAll(out_), expected);
}

TEST_F(Export, AFolderOfSomeoneElseIsLeftAlone) {
  fs::create_directories(out_ + ".partial");
  ASSERT_TRUE(WriteFileAtomically(out_ + ".partial/notes.txt", "mine").ok());
  EXPECT_EQ(Run().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ReadFile(out_ + ".partial/notes.txt").value(), "mine");
}

// A journal is a file like any other: what it says of files elsewhere is not believed.
TEST_F(Export, AForgedJournalTouchesNothingElsewhere) {
  const Files expected = Expected();
  RunAndKillAt(5 << 20);
  const std::string path = out_ + ".partial/qgpu_export.json";
  json journal = json::parse(ReadFile(path).value());
  for (const char* name : {"..", ".", "../base", "gone.safetensors"}) {
    journal["files"][name] = {{"bytes", 4096}, {"sha256", std::string(64, '0')}};
  }
  ASSERT_TRUE(WriteFileAtomically(path, journal.dump()).ok());
  const Files base = ReadAll(directory_ + "/base");
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(ReadAll(out_), expected);
  EXPECT_EQ(ReadAll(directory_ + "/base"), base);
}

TEST_F(Export, TwoAtOnceAreRefused) {
  ExportOptions options = Options();
  absl::Status second;
  options.progress = [&](uint64_t done, uint64_t total) {
    if (done == total) second = Run();
  };
  ASSERT_TRUE(Run(options).ok());
  EXPECT_EQ(second.code(), absl::StatusCode::kFailedPrecondition) << second;
}

// Written over, replaced, shortened: no shard of what was there before is taken for the base that is there now.
TEST_F(Export, ABaseThatChangesMeanwhileLeavesNothing) {
  const std::string weights = directory_ + "/base/model.safetensors", config = directory_ + "/base/config.json";
  const std::string good = ReadFile(weights).value(), good_config = ReadFile(config).value();
  const std::function<void()> changes[] = {
      [&] { ASSERT_TRUE(WriteFileAtomically(weights, good).ok()); },
      [&] { ASSERT_TRUE(WriteFileAtomically(config, good_config + " ").ok()); },
      [&] { fs::resize_file(weights, good.size() - 1); },
      [&] { fs::resize_file(weights, 1000); },
      [&] { fs::remove(weights); },
  };
  for (const auto& change : changes) {
    bool is_changed = false;
    ExportOptions options = Options();
    options.progress = [&](uint64_t done, uint64_t) {
      if (done > 2 << 20 && !std::exchange(is_changed, true)) change();
    };
    const absl::Status status = Run(options);
    EXPECT_TRUE(is_changed);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(status.message(), HasSubstr("/base was changed while it was exported; nothing is kept"));
    EXPECT_FALSE(fs::exists(out_));
    EXPECT_FALSE(fs::exists(out_ + ".partial"));
    std::ofstream(weights, std::ios::binary) << good;
    std::ofstream(config, std::ios::binary) << good_config;
  }
}

TEST_F(Export, ABaseWithoutTokenizerFilesIsExportedWithout) {
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "generation_config.json"}) {
    fs::remove(directory_ + "/base/" + name);
  }
  ASSERT_TRUE(Run().ok());
  EXPECT_FALSE(fs::exists(out_ + "/tokenizer.json"));
  EXPECT_EQ(json::parse(ReadFile(out_ + "/generation_config.json").value())["eos_token_id"], json({256, 512 + 63}));
}

TEST_F(Export, TokenizerConfigsWithAListOfAddedTokensGetTheMachines) {
  const std::string path = directory_ + "/base/tokenizer_config.json";
  const json config = {{"added_tokens_decoder", {{"256", {{"content", "<|endoftext|>"}}}}}, {"eos_token", "x"}};
  ASSERT_TRUE(WriteFileAtomically(path, config.dump()).ok());
  ASSERT_TRUE(Run().ok());
  const json merged = json::parse(ReadFile(out_ + "/tokenizer_config.json").value());
  EXPECT_EQ(merged["added_tokens_decoder"].size(), 1u + 64);
  EXPECT_EQ(merged["added_tokens_decoder"]["515"]["content"], "<|test_3|>");
  EXPECT_EQ(merged["added_tokens_decoder"]["256"]["content"], "<|endoftext|>");
}

TEST(AddTokens, RefusesClashes) {
  const std::string tokenizer = R"({"model":{"vocab":{"a":0,"b":1}},"added_tokens":[{"id":2,"content":"<s>"}]})";
  const auto error = [&](int64_t first, const std::vector<std::string>& texts) {
    auto merged = AddTokens(tokenizer, first, texts);
    return merged.ok() ? "added" : std::string(merged.status().message());
  };
  EXPECT_EQ(error(3, {"x", "y"}), "added");
  EXPECT_EQ(error(8, {"x"}), "added");
  EXPECT_THAT(error(2, {"x"}), HasSubstr("no id below 2"));
  EXPECT_THAT(error(1, {"x"}), HasSubstr("\"b\" has id 1"));
  EXPECT_THAT(error(3, {"<s>"}), HasSubstr("\"<s>\" is taken"));
  EXPECT_THAT(error(3, {"x", "x"}), HasSubstr("taken"));
  const json merged = json::parse(AddTokens(tokenizer, 8, {"x", "y"}).value());
  EXPECT_EQ(merged["model"]["vocab"]["y"], 9);
  EXPECT_EQ(merged["added_tokens"][2]["content"], "y");
  EXPECT_EQ(merged["added_tokens"][2]["id"], 9);
}

// Qwen's special tokens are in its list of added tokens alone. The tokenizers library numbers such tokens from the
// vocabulary's size on, which the machine's tokens raise.
TEST(AddTokens, KeepsTheIdsOfTokensThatTheBaseOnlyAdded) {
  const json merged = json::parse(
      AddTokens(R"({"model":{"vocab":{"a":0,"b":1}},"added_tokens":[{"id":2,"content":"<s>"}]})", 8, {"x", "y"})
          .value());
  EXPECT_EQ(merged["model"]["vocab"]["<s>"], 2);
  EXPECT_EQ(merged["added_tokens"][0]["id"], 2);
}

// Whatever is done to a tokenizer file, it is refused or comes out with the tokens added.
TEST(AddTokens, DamagedFilesAreRefusedOrStillGetTheTokens) {
  const std::string good = R"({"version":"1.0","added_tokens":[{"id":2,"content":"<s>","special":true}],)"
                           R"("model":{"type":"BPE","vocab":{"a":0,"b":1},"merges":[["a","b"]]}})";
  const uint64_t seed = 77;
  SplitMix64 random(seed);
  int accepted = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    std::string bad = good;
    for (uint32_t change = 0; change <= random.Below(3); ++change) {
      const size_t at = random.Below(static_cast<uint32_t>(bad.size()));
      if (random.Below(2) == 0) bad[at] = R"({}[]",:-e.019x)"[random.Below(14)];
      if (random.Below(3) == 0) bad.erase(at, 1 + random.Below(9));
      if (random.Below(3) == 0) bad = bad.substr(0, at + 1 + random.Below(9)) + bad.substr(at);
      if (bad.empty()) bad.push_back('x');
    }
    const auto config = AddTokensToConfig(bad, 8, {"x"});
    const auto merged = AddTokens(bad, 8, {"x", "y"});
    if (!merged.ok()) continue;
    ++accepted;
    ASSERT_EQ(json::parse(*merged)["model"]["vocab"]["y"], 9) << "seed " << seed << " trial " << trial;
    ASSERT_TRUE(config.ok()) << config.status();
  }
  EXPECT_GT(accepted, 1000);
}

}  // namespace
}  // namespace qgpu

// Checkpoints that are damaged, misdeclared or of a kind that is not read: each is refused with a message that names
// the place, by Checkpoint::Open and, all at once, by InspectCheckpoint.
#include <sys/stat.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "common/file.h"
#include "common/prng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/base/checkpoint.h"
#include "model/base/inspect.h"
#include "model/base/mapped_file.h"
#include "model/base/random_base.h"
#include "model/base/small_shape.h"
#include "model/base/untrusted_json.h"
#include "nlohmann/json.hpp"

namespace qgpu {
namespace {

using nlohmann::json;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string TestDirectory() {
  const testing::TestInfo* info = testing::UnitTest::GetInstance()->current_test_info();
  const std::string path =
      fmt::format("{}/qgpu_base_damage_test_{}_{}", testing::TempDir(), info->test_suite_name(), info->name());
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path;
}

// Writes `specs` with the names given to them into one file of a checkpoint directory.
void WriteFileOf(const TensorSource& source, const std::vector<std::pair<std::string, TensorSpec>>& named,
                 const std::string& path) {
  std::vector<SafetensorsWriter::Tensor> tensors;
  for (const auto& [name, spec] : named) tensors.push_back({name, spec.dims, StoredType::kFloat32});
  auto writer = SafetensorsWriter::Create(path, tensors).value();
  for (const auto& [name, spec] : named) {
    std::vector<float> values(spec.elements());
    ASSERT_TRUE(source.ReadRows(spec, 0, spec.rows(), values.data()).ok());
    ASSERT_TRUE(writer->Append(values.data(), values.size()).ok());
  }
  ASSERT_TRUE(writer->Finish().ok());
}

class CheckpointDamage : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = TestDirectory();
    ASSERT_TRUE(WriteRandomBase(directory_, SmallShape(), 1).ok());
    base_ = Checkpoint::Open(directory_).value();
  }
  std::string OpenError() const {
    auto checkpoint = Checkpoint::Open(directory_);
    return checkpoint.ok() ? "accepted" : std::string(checkpoint.status().message());
  }
  std::string directory_;
  std::shared_ptr<const Checkpoint> base_;
};

TEST_F(CheckpointDamage, MissingTensorIsNamed) {
  std::vector<std::pair<std::string, TensorSpec>> named;
  for (const TensorSpec& spec : ModelTensors(SmallShape())) named.push_back({FileTensorName(spec.name), spec});
  named.erase(named.begin() + 3);
  std::filesystem::remove(directory_ + "/model.safetensors");
  WriteFileOf(*base_, named, directory_ + "/model.safetensors");
  EXPECT_THAT(OpenError(), HasSubstr("model.layers.0.linear_attn.in_proj_z.weight is missing"));
}

TEST_F(CheckpointDamage, MisshapenTensorIsNamed) {
  ModelShape other = SmallShape();
  other.intermediate = 64;
  ASSERT_TRUE(WriteFileAtomically(directory_ + "/config.json", ModelShapeToConfig(other, "bfloat16", 256)).ok());
  EXPECT_THAT(OpenError(),
              HasSubstr("model.layers.0.mlp.gate_proj.weight has shape [48, 32], config.json asks for [64, 32]"));
}

TEST_F(CheckpointDamage, TruncatedFileIsNamed) {
  const std::string path = directory_ + "/model.safetensors";
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  EXPECT_THAT(OpenError(), HasSubstr("truncated"));
}

TEST_F(CheckpointDamage, IndexMayNotLeaveTheDirectory) {
  std::filesystem::remove(directory_ + "/model.safetensors");
  EXPECT_THAT(OpenError(), HasSubstr("neither"));
  const std::string index = directory_ + "/model.safetensors.index.json";
  ASSERT_TRUE(WriteFileAtomically(index, R"({"weight_map":{"a":"../x.safetensors"}})").ok());
  EXPECT_THAT(OpenError(), HasSubstr("not a file beside the index"));
  ASSERT_TRUE(WriteFileAtomically(index, R"({"weight_map":{"a":"gone.safetensors"}})").ok());
  EXPECT_THAT(OpenError(), HasSubstr("gone.safetensors"));
}

TEST_F(CheckpointDamage, ShardedNestedNamesAreReadAndVisionIsSkipped) {
  std::vector<std::pair<std::string, TensorSpec>> first, second;
  for (const TensorSpec& spec : ModelTensors(SmallShape())) {
    const std::string name = spec.name == "lm_head.weight" ? spec.name : "model.language_model." + spec.name;
    (first.size() < 7 ? first : second).push_back({name, spec});
  }
  second.push_back({"model.visual.patch_embed.weight", ModelTensors(SmallShape())[1]});
  std::filesystem::remove(directory_ + "/model.safetensors");
  WriteFileOf(*base_, first, directory_ + "/a.safetensors");
  WriteFileOf(*base_, second, directory_ + "/b.safetensors");
  json map;
  for (const auto& [name, spec] : first) map[name] = "a.safetensors";
  for (const auto& [name, spec] : second) map[name] = "b.safetensors";
  ASSERT_TRUE(WriteFileAtomically(directory_ + "/model.safetensors.index.json", json{{"weight_map", map}}.dump()).ok());
  auto sharded = Checkpoint::Open(directory_);
  ASSERT_TRUE(sharded.ok()) << sharded.status();
  for (const TensorSpec& spec : ModelTensors(SmallShape())) {
    std::vector<float> expected(spec.elements()), read(spec.elements());
    ASSERT_TRUE(base_->ReadRows(spec, 0, spec.rows(), expected.data()).ok());
    ASSERT_TRUE((*sharded)->ReadRows(spec, 0, spec.rows(), read.data()).ok());
    EXPECT_EQ(read, expected) << spec.name;
  }
}

TEST_F(CheckpointDamage, EveryProblemIsCountedAndListed) {
  ModelShape other = SmallShape();
  other.intermediate = 64;
  other.layers.pop_back();
  ASSERT_TRUE(WriteFileAtomically(directory_ + "/config.json", ModelShapeToConfig(other, "bfloat16", 256)).ok());
  EXPECT_THAT(OpenError(), HasSubstr("(and 3 more; see qgpu inspect)"));
  const CheckpointReport report = InspectCheckpoint(directory_).value();
  EXPECT_THAT(report.damage, ElementsAre(HasSubstr("gate_proj.weight has shape"), HasSubstr("up_proj.weight has shape"),
                                         HasSubstr("down_proj.weight has shape"), HasSubstr("the files hold layer 1")));
}

TEST_F(CheckpointDamage, FewerLayersThanTheFilesHoldAreRefused) {
  ModelShape other = SmallShape();
  other.layers.pop_back();
  ASSERT_TRUE(WriteFileAtomically(directory_ + "/config.json", ModelShapeToConfig(other, "bfloat16", 256)).ok());
  EXPECT_THAT(OpenError(), HasSubstr("the files hold layer 1, but config.json asks for 1 layers only"));
}

TEST_F(CheckpointDamage, AnUntiedHeadMustBeThere) {
  ModelShape tied = SmallShape();
  tied.tied_head = true;
  ASSERT_TRUE(WriteRandomBase(directory_, tied, 1).ok());
  json config = json::parse(ReadFile(directory_ + "/config.json").value());
  config["tie_word_embeddings"] = false;
  ASSERT_TRUE(WriteFileAtomically(directory_ + "/config.json", config.dump()).ok());
  EXPECT_THAT(OpenError(), HasSubstr("lm_head.weight is missing (config.json says that it is not tied"));
}

// The reference library does not tie a head that differs; we do not guess.
TEST_F(CheckpointDamage, ATiedHeadThatIsAnotherIsRefused) {
  ModelShape tied = SmallShape();
  tied.tied_head = true;
  ASSERT_TRUE(WriteFileAtomically(directory_ + "/config.json", ModelShapeToConfig(tied, "bfloat16", 256)).ok());
  EXPECT_THAT(OpenError(), HasSubstr("lm_head.weight has other values; set tie_word_embeddings to false"));
  std::vector<std::pair<std::string, TensorSpec>> named;
  for (const TensorSpec& spec : ModelTensors(tied)) named.push_back({FileTensorName(spec.name), spec});
  named.push_back({"lm_head.weight", ModelTensors(tied)[0]});  // the embedding once more
  const std::string path = directory_ + "/model.safetensors";
  std::filesystem::remove(path);  // base_ keeps the one it has open
  WriteFileOf(*base_, named, path);
  EXPECT_EQ(OpenError(), "accepted");
  named.back().second = {"norm.weight", {tied.hidden}};
  std::filesystem::remove(path);
  WriteFileOf(*base_, named, path);
  EXPECT_THAT(OpenError(), HasSubstr("lm_head.weight has type F32 and shape [32]; set tie_word_embeddings"));
}

// Somebody else writes the file while it is open. By whole pages: the mapping raises SIGBUS there; by a few bytes: the
// rest of the last page reads as zeros.
TEST_F(CheckpointDamage, FilesThatAreShortenedWhileOpenAreAnError) {
  const std::string path = directory_ + "/model.safetensors";
  const uint64_t whole = std::filesystem::file_size(path);
  ASSERT_GT(whole, 16384u);
  for (const uint64_t left : {whole - 1, whole / 2, uint64_t{100}, uint64_t{0}}) {
    ASSERT_TRUE(WriteRandomBase(directory_, SmallShape(), 1).ok());
    const std::shared_ptr<const Checkpoint> open = Checkpoint::Open(directory_).value();
    std::filesystem::resize_file(path, left);
    for (const TensorSpec& spec : ModelTensors(SmallShape())) {
      std::vector<float> values(spec.elements());
      const absl::Status status = open->ReadRows(spec, 0, spec.rows(), values.data());
      EXPECT_TRUE(absl::IsUnavailable(status)) << status;
      EXPECT_THAT(status.message(), HasSubstr(fmt::format("model.safetensors: the file had {} bytes when it was opened "
                                                          "and has {} now; something else is writing it",
                                                          whole, left)));
    }
  }
}

TEST(MappedFile, PagesThatAreGoneStayAnErrorWhenTheFileGrowsAgain) {
  const std::string path = TestDirectory() + "/file";
  ASSERT_TRUE(WriteFileAtomically(path, std::string(100'000, 'x')).ok());
  const auto file = MappedFile::Open(path).value();
  char last = 0;
  const auto read = [&] { last = file->bytes().back(); };
  EXPECT_TRUE(file->Read(read).ok());
  EXPECT_EQ(last, 'x');
  std::filesystem::resize_file(path, 5000);
  EXPECT_TRUE(absl::IsUnavailable(file->Read(read)));
  EXPECT_EQ(last, 0);
  std::filesystem::resize_file(path, 100'000);
  EXPECT_THAT(file->Read(read).message(), HasSubstr("a part of the file could not be read"));
  // A new opening sees the file as it is now.
  const auto again = MappedFile::Open(path).value();
  EXPECT_TRUE(again->Read([&] { last = again->bytes().front(); }).ok());
  EXPECT_EQ(last, 'x');
}

TEST(MappedFileDeathTest, OtherBusErrorsEndTheProgramAsBefore) {
  const std::string path = TestDirectory() + "/file";
  ASSERT_TRUE(WriteFileAtomically(path, std::string(100'000, 'x')).ok());
  const auto file = MappedFile::Open(path).value();
  std::filesystem::resize_file(path, 10);
  // Outside of Read, and so nobody's.
  EXPECT_EXIT(std::exit(file->bytes().back() == 'x' ? 1 : 2), testing::KilledBySignal(SIGBUS), "");
}

TEST_F(CheckpointDamage, TensorInTwoFilesOrInAnotherThanTheIndexSays) {
  std::vector<std::pair<std::string, TensorSpec>> named;
  for (const TensorSpec& spec : ModelTensors(SmallShape())) named.push_back({FileTensorName(spec.name), spec});
  WriteFileOf(*base_, named, directory_ + "/a.safetensors");
  WriteFileOf(*base_, {named[2]}, directory_ + "/b.safetensors");
  std::filesystem::remove(directory_ + "/model.safetensors");
  const std::string index = directory_ + "/model.safetensors.index.json";
  const json both = {{"weight_map", {{named[0].first, "a.safetensors"}, {named[2].first, "b.safetensors"}}}};
  ASSERT_TRUE(WriteFileAtomically(index, both.dump()).ok());
  EXPECT_THAT(OpenError(), HasSubstr(named[2].first + " is in a.safetensors, the index says b.safetensors"));
  const json second = {{"weight_map", {{named[0].first, "a.safetensors"}, {"x", "b.safetensors"}}}};
  ASSERT_TRUE(WriteFileAtomically(index, second.dump()).ok());
  EXPECT_THAT(OpenError(), HasSubstr(named[2].first + " is in two files"));
}

TEST_F(CheckpointDamage, AFileInsteadOfAFolderIsSaid) {
  const auto checkpoint = Checkpoint::Open(directory_ + "/config.json");
  EXPECT_EQ(checkpoint.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(checkpoint.status().message(), HasSubstr("/config.json is not a directory; the folder that holds"));
  EXPECT_EQ(ReadFile(directory_ + "/config.json/x").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(CheckpointDamage, AConfigThatIsTooLongIsRefusedByAll) {
  json config = json::parse(ReadFile(directory_ + "/config.json").value());
  config["padding"] = std::string(kMaxConfigBytes, 'x');
  ASSERT_TRUE(WriteFileAtomically(directory_ + "/config.json", config.dump()).ok());
  EXPECT_THAT(OpenError(), HasSubstr("config.json is larger than the limit"));
  EXPECT_THAT(InspectCheckpoint(directory_)->damage, Contains(HasSubstr("config.json is larger than the limit")));
}

TEST_F(CheckpointDamage, TypesThatAreNotRead) {
  std::string bytes = ReadFile(directory_ + "/model.safetensors").value();
  const std::string before = R"("model.norm.weight":{"dtype":"BF16")", after = R"("model.norm.weight":{"dtype":"I16" )";
  const size_t at = bytes.find(before);
  ASSERT_NE(at, bytes.npos);
  bytes.replace(at, before.size(), after);
  ASSERT_TRUE(WriteFileAtomically(directory_ + "/model.safetensors", bytes).ok());
  EXPECT_THAT(OpenError(), HasSubstr("model.norm.weight is stored as I16; F32, BF16 or F16 is supported"));
}

TEST_F(CheckpointDamage, APipeInsteadOfAFileDoesNotHang) {
  std::filesystem::remove(directory_ + "/model.safetensors");
  ASSERT_EQ(mkfifo((directory_ + "/model.safetensors").c_str(), 0600), 0);
  EXPECT_THAT(OpenError(), HasSubstr("model.safetensors: not a regular file"));
  std::filesystem::remove(directory_ + "/config.json");
  ASSERT_EQ(mkfifo((directory_ + "/config.json").c_str(), 0600), 0);
  EXPECT_THAT(OpenError(), HasSubstr("config.json is not a regular file"));
}

// Mapped memory is given back every 256 MiB; what is read afterwards is the same.
TEST_F(CheckpointDamage, ReadingOnAndOnGivesTheSameValues) {
  const TensorSpec spec = ModelTensors(SmallShape())[0];
  std::vector<float> first(spec.elements()), again(spec.elements());
  ASSERT_TRUE(base_->ReadRows(spec, 0, spec.rows(), first.data()).ok());
  const int64_t bytes = 2 * spec.elements();
  for (int64_t read = 0; read < (int64_t{300} << 20); read += bytes) {
    ASSERT_TRUE(base_->ReadRows(spec, 0, spec.rows(), again.data()).ok());
  }
  EXPECT_EQ(again, first);
}

TEST_F(CheckpointDamage, UnknownArchitecturesAreNamedAndStillDescribed) {
  const std::string config = R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","vocab_size":300})";
  ASSERT_TRUE(WriteFileAtomically(directory_ + "/config.json", config).ok());
  EXPECT_THAT(OpenError(), HasSubstr(R"(model_type is "llama"; only Qwen3.5 text models)"));
  const CheckpointReport report = InspectCheckpoint(directory_).value();
  EXPECT_EQ(report.architecture, "LlamaForCausalLM");
  EXPECT_FALSE(report.shape.has_value());
  EXPECT_EQ(report.types.at("BF16").elements, CountParameters(SmallShape()));
  const std::string nested = R"({"model_type":"llava","text_config":{"model_type":"qwen3_5_text"}})";
  ASSERT_TRUE(WriteFileAtomically(directory_ + "/config.json", nested).ok());
  EXPECT_THAT(OpenError(), HasSubstr(R"(model_type is "llava")"));
}

TEST(Inspect, AGoodCheckpointIsDescribed) {
  const std::string directory = TestDirectory();
  ASSERT_TRUE(WriteRandomBase(directory, SmallShape(), 1).ok());
  const CheckpointReport report = InspectCheckpoint(directory, {.all_bytes = true}).value();
  EXPECT_THAT(report.damage, IsEmpty());
  EXPECT_EQ(report.model_type, "qwen3_5_text");
  EXPECT_EQ(report.shape, SmallShape());
  EXPECT_EQ(report.used_parameters, CountParameters(SmallShape()));
  EXPECT_EQ(report.skipped_tensors, 0);
  EXPECT_EQ(report.types.at("BF16").tensors, static_cast<int64_t>(ModelTensors(SmallShape()).size()));
  EXPECT_TRUE(report.has_tokenizer);
  EXPECT_FALSE(InspectCheckpoint(directory + "/none").ok());
}

TEST(Inspect, AllBytesShowValuesAndHashesThatAreWrong) {
  const std::string directory = TestDirectory(), weights = directory + "/model.safetensors";
  ASSERT_TRUE(WriteRandomBase(directory, SmallShape(), 1, StoredType::kFloat32).ok());
  std::string bytes = ReadFile(weights).value();
  const float bad[] = {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()};
  std::memcpy(bytes.data() + bytes.size() - sizeof(bad), bad, sizeof(bad));  // the end of the last tensor
  ASSERT_TRUE(WriteFileAtomically(weights, bytes).ok());
  const json manifest = {{"files",
                          {{"model.safetensors", {{"bytes", bytes.size()}, {"sha256", std::string(64, '0')}}},
                           {"config.json", {{"bytes", 7}, {"sha256", ""}}},
                           {"gone", {{"bytes", 7}}},
                           {"../x", {{"bytes", 7}}}}}};
  ASSERT_TRUE(WriteFileAtomically(directory + "/qgpu_manifest.json", manifest.dump()).ok());
  const CheckpointReport sizes = InspectCheckpoint(directory).value();
  EXPECT_THAT(sizes.damage, testing::UnorderedElementsAre(HasSubstr("config.json has"), HasSubstr("gone is missing"),
                                                          HasSubstr("\"../x\" is no entry")));
  const CheckpointReport all = InspectCheckpoint(directory, {.all_bytes = true}).value();
  EXPECT_THAT(all.damage, Contains(HasSubstr("lm_head.weight: 2 values are not finite")));
  EXPECT_THAT(all.damage, Contains(HasSubstr("model.safetensors has SHA-256")));
}

TEST(UntrustedJson, DepthAndDuplicatesAreRefused) {
  const auto error = [](const std::string& text) {
    const auto value = ParseUntrustedJson(text);
    return value.ok() ? "accepted" : std::string(value.status().message());
  };
  EXPECT_EQ(error(std::string(32, '[') + std::string(32, ']')), "accepted");
  EXPECT_THAT(error(std::string(34, '[') + std::string(34, ']')), HasSubstr("nested deeper"));
  EXPECT_THAT(error(std::string(3'000'000, '[')), HasSubstr("not valid JSON"));
  EXPECT_THAT(error(std::string(1'000'000, '[') + std::string(1'000'000, ']')), HasSubstr("nested deeper"));
  EXPECT_THAT(error(R"({"a":1,"b":{"a":2},"a":3})"), HasSubstr("key \"a\" is given twice"));
  EXPECT_EQ(error(R"([{"a":1},{"a":1}])"), "accepted");
  EXPECT_THAT(error(R"({"a":1e999})"), HasSubstr("out of range"));
  EXPECT_THAT(error("{\"a\":\"\xff\"}"), HasSubstr("not valid JSON"));
  EXPECT_THAT(error(""), HasSubstr("not valid JSON"));
}

// Changes 1 to 4 places of a text: another byte, a digit, a few bytes left out or said twice, the end cut off.
std::string Mutated(std::string text, SplitMix64& random) {
  const uint32_t changes = 1 + random.Below(4);
  for (uint32_t change = 0; change < changes && !text.empty(); ++change) {
    const size_t at = random.Below(static_cast<uint32_t>(text.size()));
    const size_t length = std::min<size_t>(1 + random.Below(24), text.size() - at);
    switch (random.Below(6)) {
      case 0:
        text[at] = static_cast<char>(random.Below(256));
        break;
      case 1:
        text[at] = static_cast<char>('0' + random.Below(10));
        break;
      case 2:
        text.erase(at, length);
        break;
      case 3:
        text.insert(at, text.substr(at, length));
        break;
      case 4:
        text[at] = "{}[]\",:-e."[random.Below(10)];
        break;
      default:
        if (random.Below(4) == 0) text.resize(at);
    }
  }
  return text;
}

// Every file of a sharded checkpoint is mutated in turn. Whatever opens must be readable to its last value, and what
// does not must be refused with a message; inspecting it must agree.
TEST(CheckpointFuzz, MutatedFilesAreRefusedOrReadable) {
  const std::string directory = TestDirectory();
  ASSERT_TRUE(WriteRandomBase(directory, SmallShape(), 1).ok());
  std::filesystem::rename(directory + "/model.safetensors", directory + "/a.safetensors");
  json map;
  for (const TensorSpec& spec : ModelTensors(SmallShape())) map[FileTensorName(spec.name)] = "a.safetensors";
  const std::string index = directory + "/model.safetensors.index.json", config = directory + "/config.json";
  ASSERT_TRUE(WriteFileAtomically(index, json{{"weight_map", map}}.dump()).ok());

  const uint64_t seed = 2026;
  SplitMix64 random(seed);
  const std::string weights = ReadFile(directory + "/a.safetensors").value();
  const size_t header = 8 + *reinterpret_cast<const uint64_t*>(weights.data());
  int opened = 0, refused = 0;
  for (int trial = 0; trial < 900; ++trial) {
    const std::string path = trial % 3 == 0 ? config : trial % 3 == 1 ? index : directory + "/a.safetensors";
    const std::string good = ReadFile(path).value();
    // Of the weights only the header is worth damaging; the data behind it is any bytes.
    const std::string bad =
        trial % 3 < 2 ? Mutated(good, random) : Mutated(good.substr(0, header), random) + good.substr(header);
    std::ofstream(path, std::ios::binary) << bad;
    const auto checkpoint = Checkpoint::Open(directory);
    const auto report = InspectCheckpoint(directory);
    ASSERT_TRUE(report.ok());
    ASSERT_EQ(checkpoint.ok(), report->damage.empty())
        << "seed " << seed << " trial " << trial << " " << checkpoint.status();
    if (checkpoint.ok()) {
      ++opened;
      for (const TensorSpec& spec : ModelTensors((*checkpoint)->shape())) {
        std::vector<float> row(spec.row_size());
        ASSERT_TRUE((*checkpoint)->ReadRows(spec, spec.rows() - 1, 1, row.data()).ok());
      }
    } else {
      ++refused;
      ASSERT_FALSE(checkpoint.status().message().empty());
    }
    std::ofstream(path, std::ios::binary) << good;
  }
  EXPECT_GT(opened, 40);
  EXPECT_GT(refused, 300);
}

}  // namespace
}  // namespace qgpu

// Outputs replace older files of their own kind, and no others.
#include "launch/program/output/output_kind.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launch/commands/simulate_report.hpp"
#include "launch/program/output/report.hpp"
#include "node/error.hpp"
#include "tests/launch/process.hpp"
#include "tests/paths.hpp"

namespace yamata::test {
namespace {

const std::string kNotes = "my notes\n";
const std::string kDraftHeads = test::source_path("/models/tales-medusa.safetensors");

/// A safetensors file of empty tensors with these names.
std::string safetensors_of(const std::vector<std::string>& names) {
  std::string header;
  for (const std::string& name : names)
    header += (header.empty() ? "{\"" : ",\"") + name + R"(":{"dtype":"I64","shape":[0],"data_offsets":[0,0]})";
  header += "}";
  std::string length(8, '\0');
  length[0] = static_cast<char>(header.size() & 255), length[1] = static_cast<char>(header.size() >> 8);
  return length + header;
}

TEST(RefuseForeign, EachKind_replacesItsOwnFilesOnly) {
  const TemporaryFolder folder;
  const std::string file = folder / "file", run_csv = to_csv(Generation{}), simulation_csv = to_csv({SimulatedRow{}});
  const std::string result = to_json(Generation{}), trace = to_trace(Generation{});
  const std::string features = safetensors_of({"hidden.last", "ids", "prompts", "texts"}),
                    texts = safetensors_of({"ids", "prompts", "texts"});
  const std::string draft_heads = safetensors_of({"medusa_head.0.0.linear.weight"});
  const struct {
    OutputKind kind;
    std::string name;
    std::vector<std::string> own, foreign;
  } cases[] = {
      {OutputKind::kJson,
       "a JSON object",
       {result, "\n{}", "{\"text\": \"\uFFFD\"}"},
       {run_csv, "GGUF", draft_heads, "{\a" + draft_heads.substr(2), "[models.a]\ntarget = \"x\"\n", "[link](http://x) my notes", "{\\rtf1",
        "{ this is text", "{}\n{}\n", "[]", result.substr(0, result.size() - 3), std::string(100, '\n')}},
      {OutputKind::kTrace, "a trace", {trace, trace.substr(0, 50)}, {result, "[]", R"({"traceEvents":1})", "{ this is text", draft_heads}},
      {OutputKind::kRunCsv, "the CSV of a run", {run_csv}, {simulation_csv, "strategy\n", "{}"}},
      {OutputKind::kSimulationCsv, "the CSV of a simulation", {simulation_csv}, {run_csv, "{}"}},
      {OutputKind::kGguf, "a GGUF file", {"GGUF", read_file(kDraft)}, {"{}", "GGU", draft_heads}},
      {OutputKind::kFeatures,
       "a file of yamata features",
       {features},
       {draft_heads, texts, read_file(kDraftHeads), features + "x", "{}", "GGUF"}}};
  for (const auto& c : cases) {
    for (const std::string& text : c.own) {
      write_file(file, text);
      EXPECT_NO_THROW(refuse_foreign(file, c.kind)) << c.name << " over " << text.substr(0, 60);
    }
    std::vector<std::string> foreign = c.foreign;
    foreign.push_back(kNotes);
    for (const std::string& text : foreign) {
      write_file(file, text);
      std::string message;
      try {
        refuse_foreign(file, c.kind);
      } catch (const UsageError& e) {
        message = e.what();
      }
      EXPECT_EQ(message, file + " exists and is not " + c.name + ", so it is not replaced; write to another file") << text.substr(0, 60);
    }
  }
}

TEST(RefuseForeign, NoContent_isNeverRefused) {
  const TemporaryFolder folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  write_file(folder / "empty", "");
  for (const std::string& path : {pipe, folder / "empty", folder / "none", std::string("/dev/null")})
    EXPECT_NO_THROW(refuse_foreign(path, OutputKind::kGguf)) << path;
}

TEST(RefuseForeign, FileThatCannotBeRead_isNotReplaced) {
  if (geteuid() == 0) GTEST_SKIP() << "root reads every file";
  const TemporaryFolder folder;
  write_file(folder / "file", "{}");
  std::filesystem::permissions(folder / "file", std::filesystem::perms::owner_write);
  EXPECT_THROW(refuse_foreign(folder / "file", OutputKind::kJson), UsageError);
}

class OutputsOfCommands : public testing::Test {
 protected:
  void SetUp() override {
    write_file(text_, "Once upon a time\n");
    write_file(hosts_, "a\n");
  }
  /// A short run that writes this output into the file.
  Arguments run_with(const std::string& flag) const { return {"run", "-m", kModel, "-p", "Once upon a time", "-n", "4", flag, file_}; }
  Arguments simulate_with(const std::string& flag) const { return {"simulate", "--ranks", "2", "-n", "8", flag, file_}; }

  const TemporaryFolder folder_;
  const std::string file_ = folder_ / "file", text_ = folder_ / "text.txt", hosts_ = folder_ / "hosts.txt";
  const Arguments features_{"features", "-m", kModel, "-f", text_, "-o", file_};
  const Arguments quantize_{"quantize", kModel, file_, "Q4_0", "--allow-requantize"};
};

TEST_F(OutputsOfCommands, ForeignFile_isRefusedBeforeTheWork) {
  const struct {
    Arguments command;
    std::string kind;
  } cases[] = {{run_with("--json"), "a JSON object"},
               {run_with("--trace"), "a trace"},
               {run_with("--csv"), "the CSV of a run"},
               {simulate_with("--json"), "a JSON object"},
               {simulate_with("--csv"), "the CSV of a simulation"},
               {{"perplexity", "-m", kModel, "-p", "x", "--json", file_}, "a JSON object"},
               {{"acceptance", "-m", kModel, "-md", kDraft, "-f", text_, "--json", file_}, "a JSON object"},
               {{"plan", "-m", kModel, "--hostfile", hosts_, "--json", file_}, "a JSON object"},
               {{"profile", "--json", file_}, "a JSON object"},
               {features_, "a file of yamata features"},
               {quantize_, "a GGUF file"}};
  write_file(file_, kNotes);
  for (const auto& c : cases) {
    const Outcome outcome = run(yamata(c.command));
    EXPECT_EQ(outcome.code, 1) << c.command.front() << outcome.err;
    EXPECT_EQ(outcome.out, "") << c.command.front();
    const std::string line = "yamata: " + file_ + " exists and is not " + c.kind + ", so it is not replaced; write to another file";
    EXPECT_EQ(outcome.complaints(), std::vector<std::string>{line}) << c.command.front() << outcome.err;
    ASSERT_EQ(read_file(file_), kNotes) << c.command.front();
  }
}

TEST_F(OutputsOfCommands, OwnFileOfBefore_isReplaced) {
  for (const Arguments& command : {run_with("--json"), run_with("--trace"), run_with("--csv"), simulate_with("--json"),
                                   simulate_with("--csv"), features_, quantize_}) {
    std::filesystem::remove(file_);
    for (const char* when : {"first", "again"}) {
      const Outcome outcome = run(yamata(command));
      EXPECT_EQ(outcome.code, 0) << when << ": " << command.front() << outcome.err;
    }
  }
}

}  // namespace
}  // namespace yamata::test

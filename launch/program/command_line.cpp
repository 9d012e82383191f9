#include "launch/program/command_line.hpp"

#include <fmt/format.h>

#include <map>
#include <span>

#include "launch/program/options/flag_parser.hpp"
#include "launch/program/options/nearest_word.hpp"
#include "launch/program/output/version.hpp"
#include "node/error.hpp"

namespace yamata {
namespace {

constexpr const char* kCommands = R"(yamata: one large language model across the machines you have

usage: yamata COMMAND [flags]            one machine
       mpirun ... yamata COMMAND [flags] several: one rank per machine

commands
  run         generate text from a prompt
  engine      serve requests, one JSON object a line; launch/serve makes an HTTP server of it
  perplexity  measure how well the model predicts a text
  acceptance  measure how often each guess source is right
  tokenize    print the token ids of a text
  inspect     show the contents of a model file, and what each rank of a split would hold
  bench       measure how fast a model runs, test by test
  profile     measure how fast this machine could be, and how close a model comes to that
  plan        predict the fastest layout of given machines
  quantize    convert a model file to another format, such as Q4_K_M
  features    write hidden states of a model over a text, to train draft heads
  fetch       list or remove the layers that this machine has got from rank 0
  simulate    predict what more ranks, a faster network or a better draft would give
  --version   print the version and the commit

'yamata COMMAND --help' lists the flags of a command.
)";

/// A command: its flags, and the function that reads their values.
struct Command {
  Flags (*flags)();
  void (*read)(const GivenFlags& given, CommandLine& line);
};

template <auto kRead>
void read_into(const GivenFlags& given, CommandLine& line) {
  line.options = kRead(given);
}

const Command& find_command(const std::string& name) {
  static const std::map<std::string, Command> kKnown{{"run", {run_flags, read_into<read_run>}},
                                                     {"engine", {engine_flags, read_into<read_engine>}},
                                                     {"perplexity", {perplexity_flags, read_into<read_perplexity>}},
                                                     {"acceptance", {acceptance_flags, read_into<read_acceptance>}},
                                                     {"tokenize", {tokenize_flags, read_into<read_tokenize>}},
                                                     {"inspect", {inspect_flags, read_into<read_inspect>}},
                                                     {"bench", {bench_flags, read_into<read_bench>}},
                                                     {"profile", {profile_flags, read_into<read_profile>}},
                                                     {"plan", {plan_flags, read_into<read_plan>}},
                                                     {"quantize", {quantize_flags, read_into<read_quantize>}},
                                                     {"features", {features_flags, read_into<read_features>}},
                                                     {"fetch", {fetch_flags, read_into<read_fetched>}},
                                                     {"simulate", {simulate_flags, read_into<read_simulation>}}};
  const auto found = kKnown.find(name);
  if (found == kKnown.end() && name.starts_with('-'))
    throw UsageError(
        fmt::format("'{}' stands where a command is expected, such as 'yamata run {} …'; 'yamata --help' lists them", name, name));
  if (found == kKnown.end()) {
    std::vector<std::string> all;
    for (const auto& [known, command] : kKnown) all.push_back(known);
    throw UsageError(fmt::format("unknown command '{}';{} 'yamata --help' lists them", name, did_you_mean(name, all)));
  }
  return found->second;
}

}  // namespace

CommandLine parse_command_line(int argc, const char* const* argv) {
  CommandLine line;
  const std::string name = argc > 1 ? argv[1] : "--help";
  if (name == "help" && argc > 2) {
    const char* const words[] = {argv[0], argv[2], "--help"};
    return parse_command_line(3, words);
  }
  if (name == "--help" || name == "-h" || name == "help") {
    line.text = kCommands;
    return line;
  }
  if (name == "--version") {
    line.text = fmt::format("yamata {} (commit {})\n", version(), commit());
    return line;
  }
  const Command& command = find_command(name);
  const Flags flags = command.flags();
  const GivenFlags given = parse_flags(flags, std::span(argv, static_cast<std::size_t>(argc)).subspan(2));
  if (given.given("help")) {
    line.text = help_of(flags);
    return line;
  }
  require_file_names(flags, given);
  command.read(given, line);
  if (auto* plan = std::get_if<PlanOptions>(&line.options)) plan->program = argv[0];
  return line;
}

std::vector<JobOptions> jobs_of(const CommandLine& line) {
  if (const auto* run = std::get_if<RunOptions>(&line.options)) return {run->job};
  if (const auto* engine = std::get_if<EngineOptions>(&line.options)) return {engine->job};
  if (const auto* perplexity = std::get_if<PerplexityOptions>(&line.options)) return {perplexity->job};
  if (const auto* acceptance = std::get_if<AcceptanceOptions>(&line.options)) return {acceptance->job};
  if (const auto* features = std::get_if<FeaturesOptions>(&line.options)) return {features->job};
  if (const auto* bench = std::get_if<BenchOptions>(&line.options)) return jobs_of(*bench);
  return {};
}

}  // namespace yamata

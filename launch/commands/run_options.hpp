#pragma once
// The options of yamata run.
#include <string>
#include <vector>

#include "launch/program/options/given_flags.hpp"
#include "launch/program/options/options.hpp"
#include "src/grammar/json_schema.hpp"

namespace yamata {

struct RunOptions {
  JobOptions job;
  TextSource text;
  SamplingParams sampling;
  SpeculationOptions speculation;
  int generate = 128;              ///< -n
  std::vector<std::string> stops;  ///< --stop
  bool chat = false;               ///< --chat: the text is a message, to be wrapped in the model's template
  bool ignore_eos = false, logits_checksum = false;
  std::string schema_file;  ///< --json-schema
  SchemaOptions schema;
  std::string json_file, csv_file, trace_file;
  bool wants_ranks = false;             ///< the preset's guesses have no pipeline on a single rank
  std::vector<std::string> idle_flags;  ///< lines about flags without effect
  std::string fewer_drafts;             ///< the remedy if there are more drafts than ranks for them

  /// The files that the run reads.
  std::vector<std::string> inputs() const;
};

Flags run_flags();
/// Throws UsageError naming the invalid flag.
RunOptions read_run(const GivenFlags& result);

}  // namespace yamata

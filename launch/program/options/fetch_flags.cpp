#include "launch/program/options/fetch_flags.hpp"

#include <string>

#include "launch/program/options/flag_values.hpp"

namespace yamata {

void add_fetch(Flags& flags) {
  auto add = flags.group("Cluster");
  add("--fetch",
      "Machines without the model's file fetch their layers from rank 0: auto (and keep them), memory (without a disk), never (an error)",
      FlagKind::kWord, "MODE", "auto");
  add("--weights-cache", "Folder in which fetched layers are kept (default: ~/.cache/yamata/weights)", FlagKind::kFolder, "FOLDER");
}

FetchOptions read_fetch(const GivenFlags& r) {
  FetchOptions fetch;
  const std::string mode = r.text("fetch");
  require_word(mode, {"auto", "never", "memory"}, "--fetch", "auto, never or memory");
  fetch.mode = mode == "auto" ? FetchOptions::Mode::kAuto : mode == "never" ? FetchOptions::Mode::kNever : FetchOptions::Mode::kMemory;
  fetch.folder = r.text("weights-cache");
  return fetch;
}

}  // namespace yamata

#include "launch/commands/fetch_options.hpp"

namespace yamata {

Flags fetch_flags() {
  Flags flags("fetch", "Lists the models of which this machine keeps layers that came from rank 0.");
  flags.group("General")("-h, --help", "Print this help");
  auto add = flags.group("Cache");
  add("--verify", "Read all that is kept, and compare it with its checksums; what is damaged is fetched again by the next job");
  add("--remove", "Remove a model from the cache, by its fingerprint; all: every model", FlagKind::kWord, "FINGERPRINT");
  add("--weights-cache", "Folder in which fetched layers are kept (default: ~/.cache/yamata/weights)", FlagKind::kFolder, "FOLDER");
  return flags;
}

FetchedOptions read_fetched(const GivenFlags& r) { return {r.text("weights-cache"), r.given("verify"), r.text("remove")}; }

}  // namespace yamata

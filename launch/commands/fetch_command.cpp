// yamata fetch: the models of which this machine keeps layers that came from rank 0.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <ctime>
#include <string>
#include <vector>

#include "launch/commands/commands.hpp"
#include "launch/program/output/standard_output.hpp"
#include "launch/program/planning/measurement_cache.hpp"
#include "node/error.hpp"
#include "src/fetch/weights_cache.hpp"

namespace yamata {
namespace {

std::string folder_of(const FetchedOptions& options) {
  char host[256] = "localhost";
  gethostname(host, sizeof(host) - 1);
  if (!options.folder.empty()) return fetch::weights_folder(options.folder, host);
  const std::string cache = measurement_folder();
  if (cache.empty()) throw ModelError("there is no home folder; name the cache with --weights-cache");
  return fetch::weights_folder(cache + "/weights", host);
}

void list(const std::string& folder, const std::vector<fetch::CachedModel>& models) {
  if (models.empty()) return print_out("no fetched models in {}\n", folder);
  print_out("{:16} {:>10} {:>10} {:16} {}\n", "fingerprint", "disk MiB", "of MiB", "last used", "model");
  for (const fetch::CachedModel& model : models) {
    print_out("{:016x} {:>10} {:>10} {:%Y-%m-%d %H:%M} {}{}\n", model.fingerprint, model.disk_bytes >> 20, model.whole_bytes >> 20,
              fmt::localtime(model.used_s), model.name, model.damaged ? " (damaged: the next job fetches it again)" : "");
  }
}

void verify(const fetch::CachedModel& model) {
  const fetch::Verified verified = fetch::verify_model(model);
  print_out("{:016x} {}: {} pieces of 1 MiB, {} damaged{}\n", model.fingerprint, model.name, verified.chunks, verified.wrong,
            verified.wrong > 0 ? "; the next job fetches these again" : "");
}

void remove(const fetch::CachedModel& model) {
  if (!fetch::remove_model(model))
    throw ModelError(fmt::format("cannot remove {}: a job uses it, or the folder is read-only; end that job", model.folder));
  print_out("removed {:016x} {}\n", model.fingerprint, model.name);
}

}  // namespace

void fetch_command(const FetchedOptions& options) {
  const std::string folder = folder_of(options);
  const std::vector<fetch::CachedModel> models = fetch::list_models(folder);
  bool found = options.remove.empty() || options.remove == "all";
  for (const fetch::CachedModel& model : models) {
    const bool named = options.remove == "all" || options.remove == fmt::format("{:016x}", model.fingerprint);
    found |= named;
    if (named) remove(model);
    if (!named && options.verify) verify(model);
  }
  if (!found) throw UsageError(fmt::format("--remove: there is no model {} in {}; 'yamata fetch' lists them", options.remove, folder));
  if (options.remove.empty() && !options.verify) list(folder, models);
}

}  // namespace yamata

#pragma once
// The folder of fetched models: FINGERPRINT/have, FINGERPRINT/part-N.gguf, ...
#include <cstdint>
#include <ctime>
#include <string>
#include <vector>

namespace yamata::fetch {

/// `folder`, or if that is on a network file system a folder of this host in it: what one machine writes there, another that has mapped it
/// may not see.
std::string weights_folder(const std::string& folder, const std::string& host);
/// A model's folder in it.
std::string model_folder(const std::string& folder, std::uint64_t fingerprint);

struct CachedModel {
  std::uint64_t fingerprint = 0;
  std::string folder, name;         ///< name: of the model's file on rank 0
  std::uint64_t present_bytes = 0;  ///< of the chunks that are there
  std::uint64_t whole_bytes = 0;    ///< of the model's files
  std::uint64_t disk_bytes = 0;     ///< that its copy occupies
  std::time_t used_s = 0;           ///< when it was last used, in seconds since the epoch
  bool damaged = false;             ///< what is present is not known
};
/// The models in a folder, the least recently used first. None if there is no folder.
std::vector<CachedModel> list_models(const std::string& folder);
/// Removes a model's copy; false: a process uses it.
bool remove_model(const CachedModel& model);
/// Reads all chunks that are there; those whose checksum is wrong count as absent from then on. Returns their number.
struct Verified {
  std::uint64_t chunks = 0, wrong = 0;
};
/// Throws ModelError if a process uses the model.
Verified verify_model(const CachedModel& model);

/// Removes models that no process uses, the least recently used first, until so many bytes are free; none if even
/// all of them are not enough.
void make_room(const std::string& folder, std::uint64_t bytes);
/// Bytes that this user may still write there.
std::uint64_t free_bytes(const std::string& folder);

}  // namespace yamata::fetch

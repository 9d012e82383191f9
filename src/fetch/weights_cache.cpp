#include "src/fetch/weights_cache.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "node/checksum.hpp"
#include "node/error.hpp"
#include "src/fetch/have_file.hpp"

namespace yamata::fetch {
namespace {

namespace fs = std::filesystem;

/// Whether several machines may have this folder.
bool is_shared(std::string path) {
  constexpr std::uint64_t kCifs = 0xFF534D42, kLustre = 0x0BD00BD0, kGpfs = 0x47504653, kBeegfs = 0x19830326;
  constexpr std::uint64_t kKinds[] = {NFS_SUPER_MAGIC,  SMB_SUPER_MAGIC, 0xFE534D42, kCifs, AFS_SUPER_MAGIC, CEPH_SUPER_MAGIC,
                                      FUSE_SUPER_MAGIC, V9FS_MAGIC,      kLustre,    kGpfs, kBeegfs};
  struct statfs system {};
  while (statfs(path.c_str(), &system) != 0) {
    const std::string parent = fs::path(path).parent_path().string();
    if (parent == path || parent.empty()) return false;
    path = parent;
  }
  return std::ranges::find(kKinds, static_cast<std::uint64_t>(system.f_type) & 0xFFFFFFFF) != std::end(kKinds);
}

std::uint64_t occupied_bytes(const std::string& folder) {
  std::error_code unseen;
  std::uint64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(folder, unseen)) {
    struct stat status {};
    if (stat(entry.path().c_str(), &status) == 0) bytes += static_cast<std::uint64_t>(status.st_blocks) * 512;
  }
  return bytes;
}

CachedModel describe(const std::string& folder, std::uint64_t fingerprint) {
  CachedModel model;
  model.fingerprint = fingerprint, model.folder = folder;
  std::ifstream name(folder + "/name");
  std::getline(name, model.name);
  struct stat status {};
  if (stat((folder + "/have").c_str(), &status) == 0) model.used_s = status.st_mtime;
  model.disk_bytes = occupied_bytes(folder);
  const auto content = read_have(folder + "/have");
  model.damaged = !content;
  if (!content) return model;
  for (const PartShape& part : content->shape.parts) model.whole_bytes += part.bytes;
  const ChunkMap map(content->shape);
  for (std::uint64_t chunk = 0; chunk < map.count(); ++chunk) {
    if (content->checksums[static_cast<std::size_t>(chunk)] != 0) model.present_bytes += map.place(chunk).bytes;
  }
  return model;
}

}  // namespace

std::string weights_folder(const std::string& folder, const std::string& host) { return is_shared(folder) ? folder + "/" + host : folder; }

std::string model_folder(const std::string& folder, std::uint64_t fingerprint) { return fmt::format("{}/{:016x}", folder, fingerprint); }

std::vector<CachedModel> list_models(const std::string& folder) {
  std::vector<CachedModel> models;
  std::error_code unseen;
  for (const auto& entry : fs::directory_iterator(folder, unseen)) {
    const std::string name = entry.path().filename().string();
    char* end = nullptr;
    const std::uint64_t fingerprint = std::strtoull(name.c_str(), &end, 16);
    if (name.size() == 16 && *end == 0 && fs::is_directory(entry.path(), unseen))
      models.push_back(describe(entry.path().string(), fingerprint));
  }
  std::ranges::sort(models, {}, &CachedModel::used_s);
  return models;
}

bool remove_model(const CachedModel& model) {
  const FileDescriptor own = try_own_have(model.folder + "/have");
  std::error_code failed;
  if (!own && fs::exists(model.folder + "/have", failed)) return false;
  fs::remove_all(model.folder, failed);
  return !failed;
}

void make_room(const std::string& folder, std::uint64_t bytes) {
  std::uint64_t possible = free_bytes(folder);
  if (possible >= bytes) return;
  const std::vector<CachedModel> models = list_models(folder);
  for (const CachedModel& model : models) possible += model.disk_bytes;
  for (const CachedModel& model : models) {
    if (possible < bytes) return;
    remove_model(model);
    if (free_bytes(folder) >= bytes) return;
  }
}

std::uint64_t free_bytes(const std::string& folder) {
  struct statvfs system {};
  if (statvfs(folder.c_str(), &system) != 0) return 0;
  return static_cast<std::uint64_t>(system.f_bavail) * system.f_frsize;
}

Verified verify_model(const CachedModel& model) {
  const std::string path = model.folder + "/have";
  const FileDescriptor own = try_own_have(path);
  if (!own) throw ModelError(fmt::format("{} is in use; verify it when its job has ended", model.folder));
  const auto content = read_have(path);
  if (!content) throw ModelError(fmt::format("{} is damaged; the next job fetches its model again", path));
  const ChunkMap map(content->shape);
  Verified verified;
  std::vector<std::byte> bytes;
  const std::uint64_t zero = 0;
  const auto first = static_cast<off_t>(fs::file_size(path) - content->checksums.size() * sizeof(zero));
  for (std::uint64_t chunk = 0; chunk < map.count(); ++chunk) {
    const std::uint64_t expected = content->checksums[static_cast<std::size_t>(chunk)];
    if (expected == 0) continue;
    const ChunkPlace place = map.place(chunk);
    std::ifstream in(model.folder + "/" + content->shape.parts[place.part].name, std::ios::binary);
    bytes.assign(static_cast<std::size_t>(place.bytes), std::byte{});
    in.seekg(static_cast<std::streamoff>(place.begin));
    in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    ++verified.chunks;
    if (in && checksum(bytes) == expected) continue;
    ++verified.wrong;
    if (pwrite(own.get(), &zero, sizeof(zero), first + static_cast<off_t>(chunk * sizeof(zero))) != sizeof(zero))
      throw ModelError(fmt::format("cannot write {}; remove {}", path, model.folder));
  }
  return verified;
}

}  // namespace yamata::fetch

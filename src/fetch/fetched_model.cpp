#include "src/fetch/fetched_model.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "node/checksum.hpp"
#include "node/error.hpp"
#include "src/fetch/weights_cache.hpp"

namespace yamata::fetch {
namespace {

constexpr std::size_t kUnmarked = 16;  // chunks after which a sync of the disk is worth its time

}  // namespace

FetchedModel::FetchedModel(std::string folder, ModelShape shape)
    : folder_(std::move(folder)), shape_(std::move(shape)), map_(shape_), present_(static_cast<std::size_t>(map_.count()), false) {
  if (!folder_.empty()) have_.emplace(folder_, shape_);
  open_parts();
}

std::shared_ptr<FetchedModel> FetchedModel::in_folder(const std::string& folder, ModelShape shape) {
  validate(shape);
  const std::string own = model_folder(folder, shape.fingerprint);
  std::error_code failed;
  std::filesystem::create_directories(own, failed);
  if (failed)
    throw ModelError(
        fmt::format("cannot make {} for fetched weights: {}; name a folder that can be written with --weights-cache, or use --fetch memory",
                    own, failed.message()));
  const std::string name = shape.name;
  std::shared_ptr<FetchedModel> model(new FetchedModel(own, std::move(shape)));
  std::ofstream(own + "/name") << name << '\n';  // for lists of models
  return model;
}

std::shared_ptr<FetchedModel> FetchedModel::in_memory(ModelShape shape) {
  validate(shape);
  return std::shared_ptr<FetchedModel>(new FetchedModel("", std::move(shape)));
}

void FetchedModel::fail(int error) const {
  const std::string where = folder_.empty() ? "memory" : folder_;
  throw ModelError(fmt::format("cannot keep fetched weights in {}: {}; name another folder with --weights-cache{}", where,
                               std::strerror(error), folder_.empty() ? "" : ", or use --fetch memory"));
}

/// Each with its whole size, as a hole.
void FetchedModel::open_parts() {
  for (std::size_t i = 0; i < shape_.parts.size(); ++i) {
    const int number = folder_.empty() ? memfd_create("weights", MFD_CLOEXEC) : ::open(path(i).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    parts_.emplace_back(number);
    struct stat status {};
    if (number < 0 || fstat(number, &status) != 0) fail(errno);
    const auto bytes = static_cast<off_t>(shape_.parts[i].bytes);
    if (status.st_size != bytes && ftruncate(number, bytes) != 0) fail(errno);
  }
}

std::string FetchedModel::path(std::size_t part) const {
  if (folder_.empty()) return fmt::format("/proc/self/fd/{}", parts_[part].get());
  return folder_ + "/" + shape_.parts[part].name;
}

gguf::File FetchedModel::open(const std::shared_ptr<FetchedModel>& model, const std::string& name) {
  std::vector<gguf::IncompletePart> parts;
  for (std::size_t i = 0; i < model->shape_.parts.size(); ++i) parts.push_back({model->path(i), model->shape_.parts[i].header});
  gguf::File file = gguf::File::open_incomplete(parts, model, name);
  model->mapped_.clear();
  for (const gguf::File::Part& part : file.parts()) model->mapped_.push_back(part.bytes);
  return file;
}

ChunkMap::Range FetchedModel::chunks_of(const gguf::File& file, std::span<const std::byte> bytes) const {
  const std::vector<gguf::File::Part> parts = file.parts();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto begin = static_cast<std::uint64_t>(bytes.data() - parts[i].bytes.data());
    if (bytes.data() >= parts[i].bytes.data() && begin < parts[i].bytes.size()) return map_.range(i, begin, bytes.size());
  }
  return {};
}

bool FetchedModel::has(std::span<const std::byte> bytes) const {
  if (bytes.empty()) return true;
  for (std::size_t i = 0; i < mapped_.size(); ++i) {
    const std::byte* const first = mapped_[i].data();
    if (bytes.data() < first || bytes.data() + bytes.size() > first + mapped_[i].size()) continue;
    const ChunkMap::Range range = map_.range(i, static_cast<std::uint64_t>(bytes.data() - first), bytes.size());
    const auto at = [&](std::uint64_t chunk) { return present_.begin() + static_cast<std::ptrdiff_t>(chunk); };
    return std::all_of(at(range.begin), at(range.end), [](bool present) { return present; });
  }
  return false;
}

void FetchedModel::unlock() {
  flush();
  if (have_) have_->unlock();
}

bool FetchedModel::read(const ChunkPlace& place, std::span<std::byte> to) const {
  for (std::size_t at = 0; at < to.size();) {
    const ssize_t n = pread(parts_[place.part].get(), to.data() + at, to.size() - at, static_cast<off_t>(place.begin + at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += static_cast<std::size_t>(n);
  }
  return true;
}

bool FetchedModel::verify(std::uint64_t chunk) {
  if (present_[chunk]) return true;
  const std::uint64_t expected = have_ ? have_->checksums()[chunk] : 0;
  if (expected == 0) return false;
  const ChunkPlace place = map_.place(chunk);
  std::vector<std::byte> bytes(static_cast<std::size_t>(place.bytes));
  present_[chunk] = read(place, bytes) && checksum(bytes) == expected;
  if (!present_[chunk]) have_->mark(chunk, 0);
  return present_[chunk];
}

void FetchedModel::allocate(std::span<const std::uint64_t> chunks) {
  if (folder_.empty()) return;
  std::uint64_t needed = 0;
  for (const std::uint64_t chunk : chunks) needed += map_.place(chunk).bytes;
  if (needed == 0) return;
  const std::string all = std::filesystem::path(folder_).parent_path().string();
  make_room(all, needed);
  const std::uint64_t free = free_bytes(all);
  const auto refuse = [&] {
    for (const std::uint64_t chunk : chunks) {  // gives back what was allocated
      const ChunkPlace place = map_.place(chunk);
      fallocate(parts_[place.part].get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(place.begin),
                static_cast<off_t>(place.bytes));
    }
    throw ModelError(fmt::format(
        "{} needs {} MiB for fetched weights and has {} MiB free; free some space, name another folder with --weights-cache, or use "
        "--fetch memory",
        all, (needed >> 20) + 1, free >> 20));
  };
  for (const std::uint64_t chunk : chunks) {
    const ChunkPlace place = map_.place(chunk);
    const auto begin = static_cast<off_t>(place.begin), bytes = static_cast<off_t>(place.bytes);
    const int failed = fallocate(parts_[place.part].get(), 0, begin, bytes) == 0 ? 0 : errno;
    if (failed == ENOSPC || failed == EDQUOT || failed == EFBIG) refuse();
    if (failed == EOPNOTSUPP && free < needed) refuse();
    if (failed == EOPNOTSUPP) return;  // then a write reports a full disk
    if (failed != 0 && failed != EINTR) fail(failed);
  }
}

void FetchedModel::put(std::uint64_t chunk, std::span<const std::byte> bytes, std::uint64_t checksum) {
  const ChunkPlace place = map_.place(chunk);
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t n = pwrite(parts_[place.part].get(), bytes.data() + at, bytes.size() - at, static_cast<off_t>(place.begin + at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail(n < 0 ? errno : ENOSPC);
    at += static_cast<std::size_t>(n);
  }
  present_[chunk] = true;
  if (have_) unmarked_[chunk] = checksum;
  if (unmarked_.size() >= kUnmarked) flush();
}

void FetchedModel::flush() {
  std::vector<bool> synced(parts_.size(), false);
  for (const auto& [chunk, checksum] : unmarked_) {
    const std::size_t part = map_.place(chunk).part;
    if (!synced[part] && fdatasync(parts_[part].get()) != 0) fail(errno);
    synced[part] = true;
  }
  for (const auto& [chunk, checksum] : unmarked_) have_->mark(chunk, checksum);
  unmarked_.clear();
}

}  // namespace yamata::fetch

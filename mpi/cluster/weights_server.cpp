#include "mpi/cluster/weights_server.hpp"

#include <fmt/format.h>

#include "node/checksum.hpp"
#include "node/error.hpp"
#include "node/lost_pages.hpp"

namespace yamata {
namespace {

ClusterError asked_for_nothing(int from) {
  return ClusterError(fmt::format("rank {} asks for weights that do not exist; do all ranks run the same yamata?", from));
}

}  // namespace

WeightsServer::WeightsServer(Transport& transport, WeightsSource* source)
    : transport_(transport), source_(source), asked_(static_cast<std::size_t>(transport.size())) {}

bool WeightsServer::take(const Message& message) {
  if (message.tag != Tag::kAskFiles && message.tag != Tag::kAskChunk) return false;
  if (!source_) throw asked_for_nothing(message.from);
  if (message.tag == Tag::kAskFiles) {
    const wire::AskFiles ask = wire::decode_ask_files(message.bytes);
    transport_.send(message.from, Tag::kModelFiles, wire::encode(wire::ModelFiles{ask.model, source_->shape(ask.model)}));
    return true;
  }
  const wire::AskChunk ask = wire::decode_ask_chunk(message.bytes);
  auto& asked = asked_[static_cast<std::size_t>(message.from)];
  if (ask.chunk >= fetch::ChunkMap(source_->shape(ask.model)).count() || asked.size() >= kMostOutstanding)
    throw asked_for_nothing(message.from);
  asked.push_back(ask);
  return true;
}

bool WeightsServer::advance() {
  for (std::size_t i = 0; i < asked_.size(); ++i) {
    const std::size_t rank = next_;
    next_ = (next_ + 1) % asked_.size();
    if (asked_[rank].empty()) continue;
    const wire::AskChunk ask = asked_[rank].front();
    asked_[rank].pop_front();
    if (transport_.forgotten(static_cast<int>(rank))) continue;
    const fetch::ChunkPlace place = fetch::ChunkMap(source_->shape(ask.model)).place(ask.chunk);
    const auto bytes = source_->bytes(ask.model, place.part).subspan(place.begin, place.bytes);
    wire::Bytes message = wire::encode(wire::Chunk{ask.model, ask.chunk, checksum(bytes), bytes});
    require_pages();  // if the file was cut in the meantime, these are zeros
    transport_.send(static_cast<int>(rank), Tag::kChunk, std::move(message));
    return true;
  }
  return false;
}

}  // namespace yamata

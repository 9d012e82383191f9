#pragma once
// The texts that a job reads, and whether they fit its context.
#include <chrono>
#include <cstdint>
#include <string>

#include "launch/program/input/chat_prompt.hpp"
#include "mpi/transport/transport.hpp"
#include "src/model/hyperparameters.hpp"

namespace yamata {

/// A file's text; "-": that of standard input. While it waits for standard input, the other ranks are told that this one is alive.
/// `timeout`: of the job.
std::string read_job_text(const std::string& path, Transport& transport, std::chrono::milliseconds timeout);

/// The prompt of a chat (render_chat); meanwhile the other ranks are told that this one is alive.
std::string render_job_chat(const ChatTemplate& chat, const std::string& message, Transport& transport);

/// What follows in a message that the context is too small, before another remedy: whether a larger one is a remedy.
std::string or_larger_context(int context, const Hyperparameters& h);
/// Throws UsageError if a prompt is longer than the context of a job with this model.
void require_prompt_fits(std::int64_t tokens, int context, const Hyperparameters& h, const char* shorter = "shorten the prompt");

}  // namespace yamata

#pragma once
// The prompt of a chat, made by the template in a model's file.
#include <functional>
#include <string>

namespace yamata {

/// What a model's file says about its chats. `source`: the Jinja template; empty: there is none, and ChatML is used. `bos`, `eos`: the
/// texts of these tokens.
struct ChatTemplate {
  std::string source, bos, eos;
};

/// The text that the model gets for one message of the user, with the beginning of an answer: what launch/serve makes of it, by the same
/// program in Python, which runs beside this one. `while_waiting` is called several times per second. Throws UsageError if Python, jinja2
/// or the scripts are missing, or if the template does not take the message.
std::string render_chat(const ChatTemplate& chat, const std::string& message, const std::function<void()>& while_waiting);

}  // namespace yamata

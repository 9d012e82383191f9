#pragma once
// Warnings, which do not end the command.
#include <string>

namespace yamata {

/// Writes a warning as a line on stderr. Until show_warnings it is kept: if the command is then refused, only the error is shown.
void warn(const std::string& text);
/// Writes the kept warnings; later ones are written at once. To be called when the work begins.
void show_warnings();

}  // namespace yamata

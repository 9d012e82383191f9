#pragma once
// Flags that have no effect on a job.
#include <string>
#include <vector>

#include "launch/program/options/given_flags.hpp"
#include "launch/program/options/options.hpp"

namespace yamata {

/// Flags that do nothing, and why: the end of a sentence that begins with them.
struct IdleReason {
  std::vector<std::string> flags;
  const char* why;
};
/// A line for each reason with the flags among its own that are given; the first reason that names a flag counts.
std::vector<std::string> idle_flags(const GivenFlags& result, const std::vector<IdleReason>& reasons);

/// What determines which flags have an effect.
struct GuessingSetup {
  const ModelFiles& models;
  const LayoutOptions& layout;
  const SpeculationOptions& speculation;
  bool simulated = false;                    ///< numbers describe the drafts, instead of files
  bool drafts = true;                        ///< simulated: there may be a draft
  const SamplingParams* sampling = nullptr;  ///< nullptr: no token is sampled
};

/// The given flags about guesses and sampling that do nothing in such a job: a line for each reason, with the flags, the reason and the
/// remedy.
std::vector<std::string> idle_flags(const GivenFlags& result, const GuessingSetup& setup);

}  // namespace yamata

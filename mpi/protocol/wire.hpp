#pragma once
// The wire protocol: every payload, its sender, its receiver, and its order. Little-endian machines only. The payloads are in a file per
// subject.
//
//   tag          from -> to           order and meaning
//   kAskFiles    rank -> head         before kHello, for each model that is not on the rank's machine; answered with kModelFiles
//   kHello       rank -> head         once per job, before all but kAskFiles, kAskChunk and kHeartbeat
//   kMeasure     head -> rank         after every kHello, if speeds are measured; ranks of one machine in turn; answered with kMeasured
//   kProbe       head <-> rank        between hellos and plan, if links are measured; answered at once, without the padding
//   kBenchmark   head -> rank         after the probes, to the members of a group; answered with kBenchmarkResult before the next
//   kStart       head -> rank         once per job, after every kHello
//   kAskChunk    rank -> head         after kModelFiles or kStart, at most kMostOutstanding at a time; answered with kChunk
//   kRecord      stage k -> k+1       the one ordered stream: runs and cache operations; forwarded before it is executed
//   kActivations stage k -> k+1       one per run, in the order of the runs; with the requested features of all layers so far
//                                     both: from the stage's leader to every rank of the next; records also within the first stage
//   kLogits      last stage -> head   one per run and rank, in order; logits and features of the requested rows, empty if there are none;
//                                     in a group, each rank sends its part of the vocabulary, and the first rank also the features
//   kCancel      head -> stage        at any time, outside the stream: run ids that the stage may skip, but need not;
//                stage -> stage       backward, to the stage before and to its own members
//   kDraft...    like the four above, within the ranks of a draft model, whose first rank leads them
//   kCommit      head -> drafter      the text's next tokens, in order, or a new text
//   kGuesses     drafter -> head      whenever there are some
//   kHeartbeat   rank <-> head        several per timeout; between all ranks while one is silent or no run comes on
//   kFailure     rank -> head         the rank has failed and waits for kStop
//   kStop        head -> rank         end; answered with kReport
//   kAsk         head -> rank         at any time; answered with kReport
//   kReport      rank -> head         statistics of the job so far
//   kLeftOut     head -> rank         to a drafter or an idle rank: the job goes on without it, and it hears nothing more from the head
//   kNextJob     head -> rank         while no run is in flight: the job is over; answered with kHello for the next
//   kDisconnect  rank <-> head        last message
#include "mpi/protocol/wire_fetch.hpp"
#include "mpi/protocol/wire_guesses.hpp"
#include "mpi/protocol/wire_hello.hpp"
#include "mpi/protocol/wire_measuring.hpp"
#include "mpi/protocol/wire_plan.hpp"
#include "mpi/protocol/wire_runs.hpp"
#include "mpi/protocol/wire_status.hpp"

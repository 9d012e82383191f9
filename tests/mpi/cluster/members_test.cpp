// Which ranks have joined, are alive, and are needed.
#include "mpi/cluster/members.hpp"

#include <gtest/gtest.h>

#include "mpi/transport/local_transport.hpp"
#include "node/error.hpp"

namespace yamata {
namespace {

using std::chrono::milliseconds;

/// Rank 0 of five in virtual time: three stages, and a drafter on ranks 3 and 4.
class MembersTest : public testing::Test {
 protected:
  MembersTest() : clock_(now_ns_), network_(5), transport_(network_, 0), members_(transport_, milliseconds(1000)) {
    plan_.pipelines.resize(2);
    plan_.pipelines[0].ranks = {0, 1, 2};
    plan_.pipelines[1].model = 1;
    plan_.pipelines[1].ranks = {3, 4};
  }
  static wire::Hello hello(int rank) {
    wire::Hello hello;
    hello.version = "test";
    hello.host = "host" + std::to_string(rank);
    hello.model = rank < 3 ? 0 : 1;
    hello.fingerprints = {42, 43};
    return hello;
  }
  void all_join() {
    for (int r = 0; r < 5; ++r) members_.joined(r, hello(r));
  }
  std::vector<Tag> all_messages(int rank) {
    std::vector<Tag> tags;
    while (const auto message = LocalTransport(network_, rank).receive()) tags.push_back(message->tag);
    return tags;
  }
  void pass(int ms) { now_ns_ += 1'000'000 * static_cast<std::int64_t>(ms); }

  std::int64_t now_ns_ = 1;
  const Clock::Override clock_;
  LocalNetwork network_;
  LocalTransport transport_;
  Members members_;
  wire::Start plan_;
};

TEST_F(MembersTest, Job_isCompleteOnceAllHaveSaidHello) {
  for (int r = 0; r < 5; ++r) {
    EXPECT_FALSE(members_.all_joined());
    members_.joined(r, hello(r));
  }
  EXPECT_TRUE(members_.all_joined());
  EXPECT_EQ(members_.hellos()[3].host, "host3");
  EXPECT_THROW(members_.joined(3, hello(3)), ClusterError);
}

TEST_F(MembersTest, FilesAndVersions_mustAgree) {
  all_join();
  EXPECT_NO_THROW(members_.check_agreement(std::vector<std::uint64_t>{42, 43}));
  EXPECT_THROW(members_.check_agreement(std::vector<std::uint64_t>{41, 43}), ModelError);
  EXPECT_THROW(members_.check_agreement(std::vector<std::uint64_t>{42, 44}), ModelError) << "the drafter's file";
  EXPECT_THROW(members_.check_agreement(std::vector<std::uint64_t>{42}), ClusterError);
}

TEST_F(MembersTest, Drafters_areDispensableOnlyOnceTheJobServes_andToldSo) {
  all_join();
  EXPECT_EQ(members_.drafter_of(4), std::nullopt);
  members_.serve(plan_);
  for (int r = 1; r < 5; ++r) {
    const auto message = LocalTransport(network_, r).receive();
    ASSERT_EQ(message.has_value(), r >= 3) << r;
    if (message) {
      EXPECT_TRUE(wire::decode_heartbeat(message->bytes).can_lose_drafters);
    }
  }
  EXPECT_EQ(members_.drafter_of(3), 3);
  EXPECT_EQ(members_.drafter_of(4), 3);
  EXPECT_EQ(members_.drafter_of(1), std::nullopt);
}

TEST_F(MembersTest, RankWithoutAPart_isIdleAndCanBeRemovedAtOnce) {
  all_join();
  for (int r = 1; r < 5; ++r) EXPECT_FALSE(members_.idle(r)) << "before the plan";
  plan_.pipelines[0].ranks = {0, 2};
  members_.place(plan_);
  for (int r = 0; r < 5; ++r) EXPECT_EQ(members_.idle(r), r == 1) << r;
  EXPECT_TRUE(members_.remove_idle(1));
  EXPECT_FALSE(members_.remove_idle(1));
  EXPECT_TRUE(members_.lost(1));
  EXPECT_TRUE(members_.send_heartbeats(Clock::now(), {}));
  EXPECT_EQ(all_messages(1), std::vector<Tag>{Tag::kLeftOut});
  for (int i = 0; i < 15; ++i) {
    pass(100);
    for (const int r : {2, 3, 4}) members_.heard(r);
    EXPECT_FALSE(members_.find_silent(Clock::now()));
  }
}

TEST_F(MembersTest, SilentRank_isNamed) {
  all_join();
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(members_.find_silent(Clock::now())) << i;
    pass(100);
    for (const int r : {1, 3, 4}) members_.heard(r);
  }
  const auto lost = members_.find_silent(Clock::now());
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->rank, 2);
  EXPECT_EQ(std::string(lost->what()).find("rank 2 (host2) has been silent for 1 s"), 0u) << lost->what();
}

TEST_F(MembersTest, SilentDrafter_isNamedAloneThoughNobodyIsHeard) {
  plan_.pipelines[0].ranks = {0};
  plan_.pipelines[1].ranks = {1, 2, 3, 4};
  all_join();
  members_.serve(plan_);
  std::optional<RankLost> lost;
  for (int i = 0; i < 11 && !lost; ++i, pass(100)) lost = members_.find_silent(Clock::now());
  ASSERT_TRUE(lost);
  EXPECT_EQ(std::string(lost->what()).find("rank 1 (host1) has been silent for 1 s"), 0u) << lost->what();
}

TEST_F(MembersTest, SilentRank_makesTheHeadAskAllRanksForHeartbeats) {
  all_join();
  const auto asks = [&] {
    EXPECT_TRUE(members_.send_heartbeats(Clock::now(), {}));
    bool any = false;
    while (const auto message = LocalTransport(network_, 1).receive()) any |= wire::decode_heartbeat(message->bytes).asks;
    return any;
  };
  EXPECT_FALSE(asks());
  pass(600);
  for (const int r : {1, 3, 4}) members_.heard(r);
  EXPECT_TRUE(asks());
}

TEST_F(MembersTest, RemovedDrafter_isWaitedForByNobody_andIsSentOnlyThat) {
  all_join();
  members_.serve(plan_);
  for (const int r : {3, 4}) LocalTransport(network_, r).receive();  // the message that the job does not need it any more
  EXPECT_EQ(members_.remove_drafter(3), (std::vector<int>{3, 4}));
  EXPECT_TRUE(members_.remove_drafter(3).empty());
  EXPECT_TRUE(members_.lost(3) && members_.lost(4));
  EXPECT_FALSE(members_.lost(2));
  EXPECT_TRUE(members_.send_heartbeats(Clock::now(), {}));
  for (int r = 1; r < 5; ++r) EXPECT_EQ(all_messages(r), std::vector<Tag>{r < 3 ? Tag::kHeartbeat : Tag::kLeftOut}) << r;
  for (int i = 0; i < 15; ++i) {
    pass(100);
    for (const int r : {1, 2}) members_.heard(r);
    EXPECT_FALSE(members_.find_silent(Clock::now()));
  }
}

TEST_F(MembersTest, DrafterThatDoesNotComeOnWhileItIsAwaited_isFound) {
  all_join();
  members_.serve(plan_);
  bool awaited = true;
  const auto find = [&] { return members_.find_stalled_drafter(Clock::now(), [&](int) { return awaited; }); };
  wire::Heartbeat heartbeat;
  for (int i = 0; i < 30; ++i) {
    pass(100);
    ++heartbeat.progress;
    members_.told(4, heartbeat);
    EXPECT_FALSE(find()) << "it makes progress";
  }
  awaited = false;
  for (int i = 0; i < 30; ++i) {
    pass(100);
    EXPECT_FALSE(find()) << "nobody waits for it";
  }
  awaited = true;
  pass(1000);
  const auto lost = find();
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->rank, 3);
  EXPECT_NE(std::string(lost->what()).find("is a link between its ranks cut?"), std::string::npos) << lost->what();
}

}  // namespace
}  // namespace yamata

// Which ranks hold the target, and which ranks draft.
#include "mpi/planning/layout.hpp"

#include <gtest/gtest.h>

#include "node/error.hpp"

namespace yamata {
namespace {

using Shares = std::vector<double>;
using Ranks = std::vector<int>;

TEST(Layout, Text_isSharesPerModelOrAuto) {
  for (const char* word : {"auto", "measure", "bytes"}) EXPECT_TRUE(parse_layer_split(word).empty()) << word;
  const auto shares = [](const char* text) {
    std::vector<Shares> all;
    for (const ModelShares& model : parse_layer_split(text)) all.push_back(model.shares);
    return all;
  };
  EXPECT_EQ(shares("0.5,0.25,0.25"), (std::vector<Shares>{{0.5, 0.25, 0.25}}));
  EXPECT_EQ(shares("0.5,0.5/1.0"), (std::vector<Shares>{{0.5, 0.5}, {1.0}}));
  EXPECT_EQ(shares("0.5, 0.5 / 1.0"), shares("0.5,0.5/1.0"));
  EXPECT_EQ(shares("0.3+0.2,0.5/1"), (std::vector<Shares>{{0.3, 0.2, 0.5}, {1.0}}));
  EXPECT_EQ(parse_layer_split("0.3+0.2,0.5/1")[0].groups, (Ranks{2, 1}));
  for (const char* bad :
       {"", "a", "0.5,", ",1", "-1,2", "0,0", "nan,1", "inf", "1;2", "1,2x", "1/", "/1", "1+", "+1", "1++1", "1+,1", "1, ,1", " "})
    EXPECT_THROW(parse_layer_split(bad), UsageError) << bad;
}

TEST(Layout, Auto_givesEveryDraftARankAndTheTargetTheRest) {
  const Layout layout = make_layout("auto", 5, 2, false);
  ASSERT_EQ(layout.size(), 3u);
  EXPECT_EQ(layout[0].ranks, (Ranks{0, 1, 2}));
  EXPECT_EQ(layout[1].ranks, Ranks{3});
  EXPECT_EQ(layout[2].ranks, Ranks{4});
  EXPECT_EQ(place_of(layout, 2), 0u);
  EXPECT_EQ(place_of(layout, 4), 2u);
}

TEST(Layout, Shares_placeADraftOnSeveralRanks) {
  const Layout layout = make_layout("0.5,0.5/0.7,0.3", 4, 1, false);
  EXPECT_EQ(layout[0].ranks, (Ranks{0, 1}));
  EXPECT_EQ(layout[1].ranks, (Ranks{2, 3}));
  EXPECT_EQ(layout[1].shares, (Shares{0.7, 0.3}));
}

TEST(Layout, RanksJoinedByPluses_shareAStage) {
  const Layout layout = make_layout("0.3+0.2,0.5/1+1", 5, 1, false);
  EXPECT_EQ(layout[0].ranks, (Ranks{0, 1, 2}));
  EXPECT_EQ(layout[0].groups, (Ranks{2, 1}));
  EXPECT_EQ(layout[0].stages(), 2);
  EXPECT_EQ(layout[0].stage_shares(), (Shares{0.5, 0.5}));
  EXPECT_EQ(layout[0].per_rank({{0, 4}, {4, 8}}), (std::vector<LayerRange>{{0, 4}, {0, 4}, {4, 8}}));
  EXPECT_EQ(layout[1].ranks, (Ranks{3, 4}));
  EXPECT_EQ(layout[1].groups, Ranks{2});
  EXPECT_TRUE(make_layout("1,1", 2, 0, false)[0].groups.empty());
}

TEST(Layout, DraftWithoutRanks_liesOnTheHead) {
  for (const Layout& layout : {make_layout("0.5,0.5", 2, 1, false), make_layout("auto", 1, 1, false), make_layout("auto", 2, 1, true)}) {
    EXPECT_EQ(layout[1].ranks, Ranks{0});
    EXPECT_EQ(place_of(layout, 0), 0u);
  }
}

TEST(Layout, Heads_lieOnTheHeadUnlessTheyHaveShares) {
  const Layout alone = make_layout("auto", 3, 0, false, 2);
  EXPECT_EQ(alone[0].ranks, (Ranks{0, 1, 2}));
  ASSERT_EQ(alone.size(), 3u);
  for (const std::size_t draft_heads : {1, 2}) {
    EXPECT_EQ(alone[draft_heads].model, static_cast<int>(draft_heads));
    EXPECT_EQ(alone[draft_heads].ranks, Ranks{0});
  }
  const Layout beside = make_layout("auto", 3, 1, false, 1);
  EXPECT_EQ(beside[1].ranks, Ranks{2}) << "the draft";
  EXPECT_EQ(beside[2].ranks, Ranks{0});
  const Layout named = make_layout("0.5,0.5/1/1", 4, 1, false, 1);
  EXPECT_EQ(named[1].ranks, Ranks{2});
  EXPECT_EQ(named[2].ranks, Ranks{3});
  EXPECT_THROW(make_layout("0.5,0.5/0.5,0.5", 4, 0, false, 1), UsageError) << "heads are not shared out";
}

TEST(Layout, SharesAndRanksThatDiffer_areRefused) {
  EXPECT_THROW(make_layout("0.5,0.5", 3, 0, false), UsageError);
  EXPECT_THROW(make_layout("0.5,0.5/1", 2, 1, false), UsageError);
  EXPECT_THROW(make_layout("0.5,0.5/1", 3, 0, false), UsageError);
  EXPECT_THROW(make_layout("0.5,0.5/1/1", 4, 1, false), UsageError);
  EXPECT_THROW(make_layout("0.5,0.5/1", 3, 1, true), UsageError);
  EXPECT_THROW(make_layout("auto", 2, 2, false), UsageError);
}

/// The message with which a layout is refused.
std::string refusal(const std::string& layer_split, int ranks, int drafts, bool draft_on_head, int draft_heads = 0) {
  try {
    make_layout(layer_split, ranks, drafts, draft_on_head, draft_heads);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(Layout, DraftsThatCannotBePlaced_areRefusedWithARemedyThatHelps) {
  const auto says = [](const std::string& message, const char* remedy) {
    EXPECT_NE(message.find(remedy), std::string::npos) << remedy << " in: " << message;
  };
  says(refusal("auto", 4, 2, true),
       "--no-async drafts on rank 0, which can hold one drafter, not 2; leave --no-async out, or give one -md");
  says(refusal("0.5,0.5/1", 3, 1, true), "--no-async drafts on rank 0; leave --no-async out, or give one share per rank without a slash");
  says(refusal("0.5,0.5/1/1", 4, 2, true), "leave --no-async out");
  says(refusal("auto", 2, 2, false), "start at least 3 ranks");
  says(refusal("0.5,0.5", 2, 2, false), "start at least 3 ranks");
  says(refusal("0.5,0.5", 4, 2, false), "for 4 ranks write 0.5,0.5/1/1");
  EXPECT_EQ(refusal("auto", 4, 1, true) + refusal("auto", 4, 2, false) + refusal("0.5,0.5/1", 3, 1, false) +
                refusal("0.5,0.3,0.2", 3, 1, true) + refusal("0.5,0.5/1/1", 4, 2, false) + refusal("auto", 3, 2, false),
            "");
}

TEST(Layout, SlashesThatDoNotFitTheDraftersAndHeads_areRefusedWithASplitForTheseRanks) {
  struct Case {
    const char* split;
    int ranks, drafts, draft_heads;
    const char* says;
    std::vector<const char*> remedies;
  };
  for (const Case& c :
       std::vector<Case>{{"0.5,0.5/1",
                          4,
                          2,
                          0,
                          "1 slash, but 2 drafters: each needs one before its shares; for 4 ranks write 0.5,0.5/1/1",
                          {"0.5,0.5/1/1"}},
                         {"0.3+0.2,0.5/1/1/1",
                          5,
                          2,
                          0,
                          "3 slashes, but 2 drafters: each needs one before its shares; for 5 ranks write 0.3+0.2,0.5/1/1",
                          {"0.3+0.2,0.5/1/1"}},
                         {"0.5,0.5/1/1",
                          4,
                          1,
                          0,
                          "2 slashes, but 1 drafter: each needs one before its shares; for 4 ranks write 0.33,0.33,0.33/1",
                          {"0.33,0.33,0.33/1"}},
                         {"0.5,0.5/1",
                          3,
                          0,
                          2,
                          "1 slash, but 2 sets of heads: each needs one before its shares; for 3 ranks write 1/1/1, or, with heads on rank "
                          "0, 0.33,0.33,0.33",
                          {"1/1/1", "0.33,0.33,0.33"}},
                         {"0.5,0.5/1",
                          2,
                          0,
                          2,
                          "2 sets of heads: each needs one before its shares; start at least 3 ranks, or, with heads on rank 0, 0.5,0.5",
                          {"0.5,0.5"}},
                         {"0.5,0.5/1/1",
                          5,
                          1,
                          2,
                          "2 slashes, but 1 drafter and 2 sets of heads: each needs one before its shares; for 5 ranks write "
                          "0.5,0.5/1/1/1, or, with heads "
                          "on rank 0, 0.25,0.25,0.25,0.25/1",
                          {"0.5,0.5/1/1/1", "0.25,0.25,0.25,0.25/1"}},
                         {"0.5,0.5/1",
                          3,
                          0,
                          0,
                          "nothing drafts; name a draft for each slash with -md FILE.gguf or --heads FILE, or write 0.33,0.33,0.33 for",
                          {"0.33,0.33,0.33"}},
                         {"0.5,0.5/0.5,0.5", 4, 0, 1, "heads lie on one rank; for 4 ranks write 0.33,0.33,0.33/1", {"0.33,0.33,0.33/1"}}}) {
    const std::string said = refusal(c.split, c.ranks, c.drafts, false, c.draft_heads);
    EXPECT_NE(said.find(c.says), std::string::npos) << c.says << " in: " << said;
    for (const char* remedy : c.remedies) EXPECT_EQ(refusal(remedy, c.ranks, c.drafts, false, c.draft_heads), "") << remedy;
  }
  EXPECT_EQ(refusal("0.5,0.5/1", 3, 1, false, 2), "") << "heads on rank 0";
}

}  // namespace
}  // namespace yamata

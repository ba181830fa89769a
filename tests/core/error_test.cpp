#include <gx/core/error.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>

#include <concepts>

namespace {

static_assert(std::derived_from<gx::Error, std::runtime_error>, "caught as std::exception, too");
static_assert(gx::Delivery{}.complete());
static_assert(gx::Delivery{}.peer == -1);
static_assert(!gx::Delivery{.outcome = gx::Delivery::Outcome::timed_out, .peer = 3}.complete());
static_assert(!gx::Delivery{.outcome = gx::Delivery::Outcome::cancelled}.complete());

TEST(Error, KeepsItsSentence) {
    try {
        throw gx::Error("labels.gz: 10 labels for 12 images");
    } catch (const std::exception& error) {
        EXPECT_STREQ(error.what(), "labels.gz: 10 labels for 12 images");
    }
}

TEST(LostRank, SaysHowTheOtherRankIsMissing) {
    const gx::LostRank::Where where{
        .rank = 0, .step = 4, .bucket = 1, .buckets = 3, .operation = "all-reduce"};
    using Outcome = gx::Delivery::Outcome;
    const std::string head = "rank 0, step 4, bucket 1 of 3, operation all-reduce: rank 2 ";
    EXPECT_EQ(gx::LostRank(where, {Outcome::lost, 2}).what(),
              head +
                  "is lost: its process, host or connection ended. Look at that rank's own "
                  "error, or, if it was killed, at its host's log, then go on from the last "
                  "checkpoint.");
    EXPECT_EQ(gx::LostRank(where, {Outcome::timed_out, 2}).what(),
              head +
                  "timed out. Look at that rank's own error, or, if it has none, at the "
                  "deadline, then go on from the last checkpoint.");
    const gx::LostRank outside({.rank = 1, .operation = "ending"}, {Outcome::cancelled, 0});
    EXPECT_STREQ(outside.what(),
                 "rank 1, operation ending: rank 0 stopped first. Look at that rank's own error, "
                 "then go on from the last checkpoint.");
}

}  // namespace

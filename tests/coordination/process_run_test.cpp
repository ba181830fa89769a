#include <gx/coordination/process_run.hpp>

#include <gtest/gtest.h>

#include <exception>
#include <string>

#include <gx/core/error.hpp>  // Error, LostRank

#include <coordination/sessions.hpp>  // Sessions, cause_of

namespace {

using namespace testing_support;
using namespace gx::coordination;
using Outcome = gx::Delivery::Outcome;

/// What rank 2 of three throws at the end of a run in which its wait ended so, and rank 1 as given.
std::string thrown(Outcome outcome, int peer, void (*end_rank_1)(Sessions&)) {
    Sessions s(3);
    for (std::size_t r = 0; r < 3; ++r) s[r].join();
    end_rank_1(s);
    (void)cause_of(s[2]);
    const gx::LostRank own({.rank = 2, .step = 4, .operation = "a sum"}, {outcome, peer});
    try {
        throw_first(s[2], std::make_exception_ptr(own));
    } catch (const std::exception& e) {
        return e.what();
    }
    return "";
}
void dies(Sessions& s) { s.all[1].reset(); }
void throws(Sessions& s) { s[1].fail("no such file"); }

const std::string of_rank_2 = "rank 2, step 4, operation a sum: rank 1 ";

// A wait for another rank ends as the run does, and need not know why.
TEST(ProcessRun, ARankThatDiedIsSaidToBeLostWhateverWasWaitedFor) {
    for (const Outcome outcome : {Outcome::cancelled, Outcome::timed_out, Outcome::lost})
        EXPECT_EQ(thrown(outcome, 1, dies),
                  of_rank_2 +
                      "is lost: its process, host or connection ended. Look at that rank's "
                      "own error, or, if it was killed, at its host's log, then go on from "
                      "the last checkpoint.");
}
TEST(ProcessRun, WhatAWaitSaysOfAnotherRankOrOfAMessageStays) {
    EXPECT_EQ(thrown(Outcome::timed_out, 0, dies),
              "rank 2, step 4, operation a sum: rank 0 timed out. Look at that rank's own error, "
              "or, if it has none, at the deadline, then go on from the last checkpoint.");
    EXPECT_EQ(thrown(Outcome::corrupted, 1, dies),
              of_rank_2 +
                  "sent a message that failed its checksum. Look at that rank's own error, "
                  "then go on from the last checkpoint.");
}
TEST(ProcessRun, AnErrorOfAnotherRankIsThrownInPlaceOfALostRank) {
    EXPECT_EQ(thrown(Outcome::cancelled, 1, throws),
              "no such file. This is the error of rank 1. Rank 2 was stopped in no operation "
              "reported yet.");
}

}  // namespace

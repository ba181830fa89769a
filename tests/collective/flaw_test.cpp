#include <gx/collective/flaw.hpp>

#include <set>

#include <gtest/gtest.h>

using gx::collective::Flaw;
using gx::collective::Proof;

namespace {

TEST(Flaw, HasASentenceOfItsOwn) {
    std::set<std::string_view> sentences;
    const int last = static_cast<int>(Flaw::rank_not_awaited);
    for (int f = 0; f <= last; ++f) sentences.insert(to_string(static_cast<Flaw>(f)));
    EXPECT_EQ(sentences.size(), static_cast<std::size_t>(last) + 1);
    EXPECT_FALSE(sentences.contains(""));
    EXPECT_EQ(to_string(static_cast<Flaw>(last + 1)), "")
        << "a flaw without a test of its sentence";
}

TEST(Flaw, IsToldWithItsPlace) {
    EXPECT_EQ(to_string(Proof{}), "the collective keeps its promise");
    EXPECT_EQ(to_string(Proof{Flaw::send_without_receive, 2, 3, 1}),
              "rank 2, step 3, chunk 1: a send has no receive in its step");
    EXPECT_EQ(to_string(Proof{Flaw::contribution_missing, 0, -1, 4, 3}),
              "rank 0, chunk 4: a chunk ends without some rank's contribution (rank 3)");
    EXPECT_EQ(to_string(Proof{Flaw::rank_not_awaited, 5, -1, -1, 2}),
              "rank 5: a rank leaves the barrier without waiting for some rank (rank 2)");
}

}  // namespace

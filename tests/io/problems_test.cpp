#include <gx/io/problems.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>

namespace {

TEST(Problems, NothingWrongThrowsNothing) {
    gx::Problems problems;
    EXPECT_TRUE(problems.check(true, "never seen"));
    EXPECT_TRUE(problems.collect([] {}));
    EXPECT_TRUE(problems.empty());
    EXPECT_NO_THROW(problems.throw_if_any("title"));
}

TEST(Problems, TellsAllAtOnceInOrder) {
    gx::Problems problems;
    EXPECT_FALSE(problems.check(false, "batch is 0"));
    problems.check(true, "never seen");
    problems.add("epochs is 0");
    EXPECT_FALSE(problems.collect([] { throw gx::Error("no such file"); }));
    EXPECT_EQ(problems.sentences().size(), 3u);
    try {
        problems.throw_if_any("these options cannot train");
        FAIL() << "three problems, and no error";
    } catch (const gx::Error& error) {
        EXPECT_STREQ(error.what(),
                     "these options cannot train:\n"
                     "  - batch is 0\n  - epochs is 0\n  - no such file");
    }
}

TEST(Problems, LetOtherExceptionsPass) {
    gx::Problems problems;
    EXPECT_THROW(problems.collect([] { throw std::logic_error("a defect"); }), std::logic_error);
    EXPECT_TRUE(problems.empty());
}

}  // namespace

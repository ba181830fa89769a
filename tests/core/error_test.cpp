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

}  // namespace

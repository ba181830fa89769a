#include <gx/loader/encoded_source.hpp>

#include <gtest/gtest.h>

namespace {

// ---- What the type promises ---------------------------------------------------------
struct WithoutEntries {
    gx::EncodedInfo info() const;
    std::unique_ptr<gx::EncodedReader> open() const;
};
static_assert(gx::EncodedSource<gx::archetype::EncodedSource>);
static_assert(!gx::EncodedSource<WithoutEntries>);
static_assert(!gx::EncodedSource<int>);

TEST(SamplePlaceOf, NamesTheFileAndTheRecord) {
    EXPECT_EQ(to_string(gx::SamplePlace{"a.rec", 42, false}), "'a.rec', record at byte 42");
    EXPECT_EQ(to_string(gx::SamplePlace{"cat/1.jpg", 0, true}), "'cat/1.jpg'");
}

}  // namespace

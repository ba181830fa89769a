#include <gx/memory/large_pages.hpp>  // first, so the header is seen to stand alone

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <new>
#include <numeric>
#include <span>
#include <string>

#include <gtest/gtest.h>

namespace {

using gx::Buffer;
using gx::LargePages;

std::uintptr_t address(std::span<const float> values) {
    return reinterpret_cast<std::uintptr_t>(values.data());
}
constexpr auto page = std::uintptr_t{LargePages::page};
constexpr std::int64_t least = std::int64_t{LargePages::least / sizeof(float)};

TEST(LargePages, BeginABufferOnAPageOfItsOwn) {
    LargePages pages;
    Buffer<float> first(&pages, least, "first"), second(&pages, least, "second");
    EXPECT_EQ(address(first.view()) % page, 0u);
    EXPECT_EQ(address(second.view()) % page, 0u);
    EXPECT_NE(address(first.view()), address(second.view()));
}
TEST(LargePages, AreNotSpentOnShortBuffers) {
    LargePages pages;
    int on_pages = 0;
    for (int i = 0; i < 8; ++i) {
        Buffer<float> other(&pages, least - 1, "other"), buffer(&pages, least - 1, "short");
        EXPECT_EQ(address(buffer.view()) % 64, 0u);
        on_pages += address(buffer.view()) % page == 0;
    }
    EXPECT_LT(on_pages, 8);
}
TEST(LargePages, HoldZerosAgainAfterTheyWereUsed) {
    LargePages pages;
    for (const std::int64_t count : {least - 1, least, std::int64_t{600000}})
        for (int i = 0; i < 3; ++i) {
            Buffer<float> buffer(&pages, count, "again");
            EXPECT_EQ(std::accumulate(buffer.view().begin(), buffer.view().end(), 0.0f), 0.0f);
            for (float& x : buffer.view()) x = 1.0f;
        }
}
TEST(LargePages, AreAskedOfTheKernel) {
    if (GX_ADDRESS_SANITIZER)
        GTEST_SKIP() << "a buffer ends within its page, to see what is behind";
    LargePages pages;
    Buffer<float> buffer(&pages, least, "asked");
    const std::uintptr_t at = address(buffer.view());
    std::ifstream maps("/proc/self/smaps");
    std::uintptr_t from = 0, end = 0;
    bool found = false;
    for (std::string line; std::getline(maps, line);) {
        std::uintptr_t first = 0, last = 0;
        if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " ", &first, &last) == 2)
            from = first, end = last;
        if (from > at || at >= end || !line.starts_with("VmFlags:")) continue;
        EXPECT_NE(line.find(" hg"), line.npos) << line;  // MADV_HUGEPAGE
        found = true;
    }
    if (!found) GTEST_SKIP() << "this system has no /proc/self/smaps with flags";
}
TEST(LargePages, OfMoreThanThereIsAreRefused) {
    LargePages pages;
    for (gx::MemoryResource* const resource :
         {static_cast<gx::MemoryResource*>(nullptr), static_cast<gx::MemoryResource*>(&pages)})
        for (const std::int64_t count : {(std::int64_t{1} << 62) - 1, (std::int64_t{1} << 62) + 1})
            EXPECT_THROW(Buffer<float>(resource, count, "too long"), std::bad_alloc);
}
TEST(LargePages, AreMemoryOfTheHost) {
    LargePages pages;
    EXPECT_EQ(pages.memory(), &gx::memory_id<gx::HostMemory>);
    Buffer<float> none(&pages, 0, "none");
    EXPECT_TRUE(none.view().empty());
}

}  // namespace

#include <tools/common/gunzip.hpp>  // first, so the header is seen to stand alone

#include <zlib.h>  // deflate

#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include <support/files.hpp>  // error_of, holds

namespace {

using gx::tools::gunzip;
using testing_support::error_of;
using testing_support::holds;

/// One gzip member.
std::string gzipped(const std::string& text) {
    z_stream z{};
    EXPECT_EQ(deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    std::string packed(deflateBound(&z, text.size()), '\0');
    z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    z.avail_in = static_cast<uInt>(text.size());
    z.next_out = reinterpret_cast<Bytef*>(packed.data());
    z.avail_out = static_cast<uInt>(packed.size());
    EXPECT_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
    packed.resize(packed.size() - z.avail_out);
    deflateEnd(&z);
    return packed;
}
std::string noise(std::size_t bytes) {
    std::string text(bytes, ' ');
    std::uint32_t state = 1;
    for (char& c : text) state = state * 1664525u + 1013904223u, c = static_cast<char>(state >> 24);
    return text;
}

TEST(Gunzip, ReturnsTheContentsOfEachMember) {
    const std::string text = noise((1 << 20) + 12'345);  // longer than the pieces that it works on
    EXPECT_EQ(gunzip(gzipped(text), "a.gz", text.size()), text);
    EXPECT_EQ(gunzip(gzipped("ab") + gzipped("") + gzipped(text) + gzipped("c"), "a.gz", 1 << 22),
              "ab" + text + "c");
    EXPECT_EQ(gunzip(gzipped(""), "a.gz", 0), "");
    EXPECT_EQ(gunzip(gzipped(std::string(1 << 20, 'a')), "a.gz", 1 << 20).size(), 1u << 20);
}
TEST(Gunzip, RefusesMoreThanIsWanted) {
    const std::string all = gzipped("12345") + gzipped("678");
    EXPECT_EQ(gunzip(all, "a.gz", 8), "12345678");
    EXPECT_TRUE(holds(error_of([&] { (void)gunzip(all, "a.gz", 7); }),
                      "a.gz: it holds more than 7 bytes, the most that is read"));
}
TEST(Gunzip, NamesWhatIsWrong) {
    const std::string one = gzipped("12345678"), two = one + one;
    const auto wrong = [](const std::string& packed) {
        return error_of([&] { (void)gunzip(packed, "a.gz", 1 << 20); });
    };
    for (std::size_t bytes = 1; bytes < two.size(); ++bytes) {
        if (bytes == one.size()) continue;
        EXPECT_TRUE(holds(wrong(two.substr(0, bytes)), "a.gz: ", "The file is damaged")) << bytes;
    }
    EXPECT_TRUE(holds(wrong(one.substr(0, one.size() - 1)), "ends before its check sum"));
    EXPECT_TRUE(holds(wrong(one + "{}"), "other bytes follow"));
    std::string flipped = one;
    flipped[one.size() - 8] = static_cast<char>(flipped[one.size() - 8] ^ 1);
    EXPECT_TRUE(holds(wrong(flipped), "the gzip stream is wrong: incorrect data check"));
}

}  // namespace

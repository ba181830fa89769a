#include <gx/io/build_id.hpp>

#include <unistd.h>  // getpid

#include <array>
#include <cstdio>
#include <span>

#include <gtest/gtest.h>

namespace {

/// What a command prints.
std::string output_of(const char* command) {
    std::string text;
    std::array<char, 256> line{};
    std::FILE* const pipe = ::popen(command, "r");
    while (std::fgets(line.data(), int(line.size()), pipe) != nullptr) text += line.data();
    ::pclose(pipe);
    return text;
}

TEST(BuildId, IsTheOneThatReadelfPrints) {
    const std::string path = "/proc/" + std::to_string(::getpid()) + "/exe";
    const std::string said = output_of(("readelf -n " + path + " 2>&1").c_str());
    const std::string before = "Build ID: ";
    const std::size_t at = said.find(before);
    if (at == said.npos) {
        EXPECT_EQ(gx::build_id(), "") << said;
        return;
    }
    EXPECT_EQ(gx::build_id(), said.substr(at + before.size(), gx::build_id().size())) << said;
    EXPECT_GE(gx::build_id().size(), 16u);
}

using gx::detail::elf_notes::id_in;
TEST(BuildId, StandsBehindOtherNotes) {
    const std::array<std::uint8_t, 60> all{
        4, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 'G', 'N', 'U', 0, 9,    9,    9,    9,  // another type
        3, 0, 0, 0, 4, 0, 0, 0, 3, 0, 0, 0, 'A', 'B', 0,   0, 9,    9,    9,    9,  // another's
        4, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0, 'G', 'N', 'U', 0, 0xab, 0x01, 0xf0, 0};
    EXPECT_EQ(id_in(all, 4), "ab01f0");
    EXPECT_EQ(id_in(std::span(all).first(59), 4), "ab01f0") << "without padding behind the last";
    EXPECT_EQ(id_in(std::span(all).first(58), 4), "") << "cut";
    EXPECT_EQ(id_in(std::span(all).first(40), 4), "");
    EXPECT_EQ(id_in({}, 4), "");
}

// As binutils before 2.31 join .note.gnu.property and .note.gnu.build-id; `readelf -n` reads so.
TEST(BuildId, StandsInSegmentsOfEightBytes) {
    const std::array<std::uint8_t, 56> notes{
        4, 0, 0, 0, 12, 0, 0, 0, 5, 0, 0, 0, 'G', 'N', 'U', 0,  // properties
        2, 0, 0, 0, 4,  0, 0, 0, 3, 0, 0, 0, 0,   0,   0,   0,  // and 4 bytes
        4, 0, 0, 0, 3,  0, 0, 0, 3, 0, 0, 0, 'G', 'N', 'U', 0, 0xab, 0x01, 0xf0};
    EXPECT_EQ(id_in(notes, 8), "ab01f0");
    EXPECT_EQ(id_in(std::span(notes).first(51), 8), "ab01f0") << "without padding behind the last";
    EXPECT_EQ(id_in(std::span(notes).first(50), 8), "") << "cut";
}

}  // namespace

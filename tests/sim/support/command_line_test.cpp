// What the programs answer to a command line that is wrong, and to work that fails.
#include "../../../sims/support/command_line.hpp"

#include <cstdint>    // numbers
#include <stdexcept>  // runtime_error

#include <unistd.h>  // getpid

#include <gtest/gtest.h>

namespace {

struct Values {
    int count = 3;
    std::uint64_t seed = 1;
    double rate = 0.5;
    std::string text{};
    bool ran = false;
};
struct Answer {
    int status = -1;
    std::string told{};
    Values values{};
};

template <class Work>
Answer answer(std::vector<std::string> words, const Work& work) {
    Answer out;
    Values& v = out.values;
    CLI::App app("A program.", "gx try");
    app.add_option("--count", v.count);
    app.add_option("--seed", v.seed);
    app.add_option("--rate", v.rate);
    app.add_option("--text", v.text);
    words.insert(words.begin(), "try");
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    testing::internal::CaptureStderr();
    out.status = gx::run_program(app, int(argv.size()), argv.data(), [&] {
        v.ran = true;
        work();
    });
    out.told = testing::internal::GetCapturedStderr();
    return out;
}
Answer answer(const std::vector<std::string>& words) {
    return answer(words, [] {});
}
void expect_refused(const std::vector<std::string>& words, const std::string& sentence) {
    const Answer a = answer(words);
    EXPECT_EQ(a.status, 2);
    EXPECT_FALSE(a.values.ran);
    EXPECT_EQ(a.told, "gx try: " + sentence + " --help lists the options.\n");
}

// ---- Command lines ------------------------------------------------------------------

TEST(RunProgram, ReadsNumbersAndText) {
    const Answer a = answer({"--count", "-7", "--seed=18446744073709551615", "--rate", "1e-3",
                             "--text", "-1 ways"});
    EXPECT_EQ(a.status, 0) << a.told;
    EXPECT_TRUE(a.values.ran);
    EXPECT_EQ(a.values.count, -7);
    EXPECT_EQ(a.values.seed, 18446744073709551615u);
    EXPECT_EQ(a.values.rate, 1e-3);
    EXPECT_EQ(a.values.text, "-1 ways");
}
TEST(RunProgram, NamesTheNearestOption) {
    expect_refused({"--cuont", "4"}, "unknown option '--cuont'. Did you mean '--count'?");
    expect_refused({"--sede=4"}, "unknown option '--sede=4'. Did you mean '--seed'?");
    expect_refused({"--zzzzzzzz"}, "unknown option '--zzzzzzzz'.");
    expect_refused({"4"}, "unexpected word '4'.");
}
TEST(RunProgram, SaysWhichNumberWasExpected) {
    const std::string whole = "a whole number", natural = whole + " from 0 to 18446744073709551615";
    expect_refused({"--count", "two"}, "--count: 'two' is not " + whole + ".");
    expect_refused({"--count", "1.5"}, "--count: '1.5' is not " + whole + ".");
    expect_refused({"--seed", "-1"}, "--seed: '-1' is not " + natural + ".");
    expect_refused({"--seed", "18446744073709551616"},
                   "--seed: '18446744073709551616' is not " + natural + ".");
    expect_refused({"--rate", "fast"}, "--rate: 'fast' is not a number.");
}

// ---- Work that fails ----------------------------------------------------------------

TEST(RunProgram, TellsWhatIsThrown) {
    const auto told = [](const auto& thrown) {
        const Answer a = answer({}, [&] { throw thrown; });
        EXPECT_EQ(a.status, 1);
        return a.told;
    };
    EXPECT_EQ(told(gx::Error("file 'x' is torn.")), "gx try: file 'x' is torn.\n");
    EXPECT_EQ(told(gx::Error("gx: this run can't start")), "gx try: this run can't start\n");
    EXPECT_EQ(told(std::runtime_error("a broken fan")), "gx try: a broken fan\n");
    EXPECT_EQ(told(std::bad_alloc()).find("gx try: there is not enough memory for this."), 0u);
}

// ---- Files to be written ------------------------------------------------------------

TEST(ExpectWritable, NamesOptionAndFileAndLeavesNothing) {
    const auto refused = [](const std::filesystem::path& file) -> std::string {
        try {
            gx::expect_writable("--json", file);
        } catch (const gx::Error& e) {
            return e.what();
        }
        return "writable";
    };
    const auto folder = std::filesystem::path(testing::TempDir()) /
                        fmt::format("gx-writable-{}", ::getpid());
    std::filesystem::create_directories(folder);
    EXPECT_EQ(refused(folder / "a.json"), "writable");
    EXPECT_EQ(refused(""), "writable") << "nobody asked for a file";
    EXPECT_TRUE(std::filesystem::is_empty(folder));
    for (const auto& file : {folder / "absent" / "a.json", folder})
        EXPECT_EQ(refused(file), "--json: file '" + file.string() + "' can't be written. Choose a "
                                 "file in a folder that exists and is writable.");
    std::filesystem::remove_all(folder);
}

}  // namespace

// What programs print and return for a wrong command line, and for work that fails.
#include "../../../sims/support/command_line.hpp"

#include <csignal>       // SIGXFSZ
#include <cstdint>       // numbers
#include <cstdlib>       // strtod
#include <stdexcept>     // runtime_error
#include <system_error>  // no thread is left

#include <fcntl.h>     // open
#include <sys/stat.h>  // mkfifo
#include <sys/wait.h>  // waitpid
#include <unistd.h>    // dup2

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <support/files.hpp>  // Folder, error_of, holds

namespace {

using namespace testing_support;

struct Values {
    int count = 3;
    std::uint64_t seed = 1;
    double rate = 0.5;
    float share = 0;
    std::string text{};
    std::vector<std::string> names{};
    bool quick = false;
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
    app.add_option("--share", v.share)->check(gx::number_in(0, 1));
    app.add_option("--lines", v.count)->check(gx::count_in(0, 50));
    app.add_option("--text,--title-of-pages", v.text);
    app.add_option("--name", v.names);
    app.add_flag("--quick", v.quick);
    words.insert(words.begin(), "try");
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    testing::internal::CaptureStderr();
    out.status = gx::run_program(app, int(argv.size()), argv.data(), [&] {
        v.ran = true;
        return work();
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
    const Answer a = answer(
        {"--count", "-7", "--seed=18446744073709551615", "--rate", "1e-3", "--text", "-1 ways"});
    EXPECT_EQ(a.status, 0) << a.told;
    EXPECT_TRUE(a.values.ran);
    EXPECT_EQ(a.values.count, -7);
    EXPECT_EQ(a.values.seed, 18446744073709551615u);
    EXPECT_EQ(a.values.rate, 1e-3);
    EXPECT_EQ(a.values.text, "-1 ways");
}
TEST(RunProgram, ReadsWholeNumbersAsDecimal) {
    const Answer a = answer({"--count", "-0010", "--seed", "0256", "--rate", "010"});
    EXPECT_EQ(a.status, 0) << a.told;
    EXPECT_EQ(a.values.count, -10);
    EXPECT_EQ(a.values.seed, 256u);
    EXPECT_EQ(a.values.rate, 10);
    EXPECT_EQ(answer({"--lines", "050"}).values.count, 50);
    EXPECT_EQ(answer({"--lines", "08"}).values.count, 8);
    expect_refused({"--lines", "051"}, "--lines: '51' is not a whole number from 0 to 50.");
}
TEST(RunProgram, NamesTheNearestOption) {
    expect_refused({"--cuont", "4"}, "unknown option '--cuont'. Did you mean '--count'?");
    expect_refused({"--sede=4"}, "unknown option '--sede=4'. Did you mean '--seed'?");
    expect_refused({"--title"}, "unknown option '--title'. Did you mean '--title-of-pages'?");
    for (const std::string far : {"--zzzzzzzz", "--title-off", "-"})
        expect_refused({far}, "unknown option '" + far + "'.");
    expect_refused({"4"}, "unexpected word '4'.");
}
/// ./gx plan --help describes the command; the program's own list is behind --options there.
TEST(RunProgram, PointsToTheOptionsAsItWasCalled) {
    ::setenv("GX_COMMAND", "./gx plan", 1);
    const std::vector<std::vector<std::string>> wrong{
        {"--zzzzzzzz"}, {"4"}, {"--text="}, {"--count", "two"}};
    for (const std::vector<std::string>& words : wrong) {
        const std::string told = answer(words).told;
        EXPECT_TRUE(told.ends_with(" ./gx plan --options lists the options.\n")) << told;
    }
    ::unsetenv("GX_COMMAND");
    expect_refused({"--zzzzzzzz"}, "unknown option '--zzzzzzzz'.");
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

TEST(RunProgram, RefusesWhatIsNoFiniteDecimalNumber) {
    for (const char* x :
         {"nan", "-nan", "inf", "-inf", "1e999", "0x10", "+1", " 1", "1 ", "1,5", "1.5f", "one"}) {
        expect_refused({"--rate", x}, fmt::format("--rate: '{}' is not a number.", x));
        expect_refused({"--share", x},
                       fmt::format("--share: '{}' is not a number from 0 to 1.", x));
        expect_refused({"--lines", x},
                       fmt::format("--lines: '{}' is not a whole number from 0 to 50.", x));
    }
    expect_refused({"--share", "1.001"}, "--share: '1.001' is not a number from 0 to 1.");
    expect_refused({"--lines", "-1"}, "--lines: '-1' is not a whole number from 0 to 50.");
    expect_refused({"--lines", "1e1"}, "--lines: '1e1' is not a whole number from 0 to 50.");
    EXPECT_EQ(answer({"--count", "2147483648"}).status, 2) << "beyond an int";
}
TEST(RunProgram, RefusesAnOptionThatIsGivenTwice) {
    expect_refused({"--count", "1", "--count=2"}, "--count: this option is given twice.");
    expect_refused({"--text=a", "--rate", "1", "--text=a"}, "--text: this option is given twice.");
    expect_refused({"--quick", "--quick"}, "--quick: this option is given twice.");
    EXPECT_EQ(answer({"--name", "a", "--name", "b"}).values.names,
              (std::vector<std::string>{"a", "b"}));
}
TEST(RunProgram, RefusesEmptyAndMissingValues) {
    expect_refused({"--text", ""}, "--text: the value is empty.");
    expect_refused({"--name", "a", "--name", ""}, "--name: the value is empty.");
    expect_refused({"--text=", "word"}, "--text: the value is empty.");
    expect_refused({"--count="}, "--count: the value is empty.");
    for (const char* option : {"--text", "--count", "--rate", "--name"})
        EXPECT_EQ(answer({option}).status, 2) << option;
    EXPECT_EQ(answer({"--quick=perhaps"}).status, 2);
}
TEST(RunProgram, TakesNoAbbreviation) {
    expect_refused({"--tex", "a"}, "unknown option '--tex'. Did you mean '--text'?");
    expect_refused({"-c", "1"}, "unknown option '-c'.");
}
TEST(RunProgram, PrintsNoControlCharacters) {
    expect_refused({"\x1b[2J"}, "unexpected word '\\x1b[2J'.");
    EXPECT_EQ(answer({}, [] { throw gx::Error("name '\x1b\x7f'"); }).told,
              "gx try: name '\\x1b\\x7f'\n");
}
// The oracle: strtod reads all of the word, and the word has only letters of a decimal number.
RC_GTEST_PROP(RunProgram, AcceptsExactlyTheNumbersInRange, ()) {
    const auto digits = [](int most) {
        return *rc::gen::resize(most, rc::gen::container<std::string>(
                                          rc::gen::inRange('0', static_cast<char>('9' + 1))));
    };
    const auto maybe = [](const std::string& text) {
        return *rc::gen::element(std::string(), text);
    };
    std::string word = maybe("-") + digits(2) + maybe(".") + digits(3);
    // At most two digits, for strtod rounds 1e-999 to 0, and from_chars refuses it.
    if (*rc::gen::arbitrary<bool>()) word += "e" + maybe("-") + digits(2);
    if (!word.empty() && *rc::gen::arbitrary<bool>())
        word[*rc::gen::inRange<std::size_t>(0, word.size())] =
            *rc::gen::elementOf(std::string("0.-+eExnai ,"));
    char* end = nullptr;
    const double x = std::strtod(word.c_str(), &end);
    const bool decimal = !word.empty() && end == word.c_str() + word.size() &&
                         word.find_first_not_of("0123456789.-+eE") == std::string::npos &&
                         word.front() != '+';
    const bool accepted = gx::number_in(0, 1)(word).empty();
    RC_ASSERT(accepted == (decimal && x >= 0 && x <= 1));
}

// ---- Control characters -------------------------------------------------------------

TEST(Printable, EscapesWhatATerminalInterprets) {
    EXPECT_EQ(gx::printable("a\x1b[31m\x7f\n\t"), "a\\x1b[31m\\x7f\\x0a\\x09");
    EXPECT_EQ(gx::printable("a\n\tb", "\n\t"), "a\n\tb");
    EXPECT_EQ(gx::printable("\xc2\x9b"
                            "31m"),
              "\\x9b31m")
        << "CSI in one character";
    EXPECT_EQ(gx::printable("\xc3\xa9\xc2\xa0"), "\xc3\xa9\xc2\xa0") << "other UTF-8 stays";
    EXPECT_EQ(gx::printable("\xc2"), "\xc2") << "cut off";
}

// ---- Work that fails ----------------------------------------------------------------

TEST(RunProgram, ReturnsTheStatusThatWorkReturns) {
    EXPECT_EQ(answer({}, [] { return 5; }).status, 5);
    EXPECT_EQ(answer({}, [] { return 0; }).status, 0);
    EXPECT_EQ(answer({"--count", "two"}, [] { return 5; }).status, 2);
}
TEST(RunProgram, ATextThatIsLostIsAnError) {
    const auto on_a_full_disk = [](const auto& work) {
        std::fflush(stdout);
        const int kept = ::dup(STDOUT_FILENO), full = ::open("/dev/full", O_WRONLY);
        ::dup2(full, STDOUT_FILENO);
        Answer a = answer({}, work);
        ::dup2(kept, STDOUT_FILENO);
        ::close(kept);
        ::close(full);
        std::clearerr(stdout);
        return a;
    };
    const auto print = [](int lines) {
        for (int i = 0; i < lines; ++i) fmt::print("a line of text\n");
    };
    for (const int lines : {1, 100'000}) {  // kept until the end, or not
        const Answer a = on_a_full_disk([&] { print(lines); });
        EXPECT_EQ(a.status, 2);
        EXPECT_TRUE(holds(a.told, "gx try: standard output cannot be written"));
    }
    EXPECT_EQ(on_a_full_disk([&] { return print(1), 1; }).status, 1);
    EXPECT_EQ(on_a_full_disk([] {}).status, 0);
}
/// Text for standard error does not go into the next file that is opened.
TEST(RunProgram, KeepsItsTextOutOfFilesWhereAStandardStreamIsClosed) {
    const Folder folder;
    for (const int closed : {0, 1, 2}) {
        const pid_t child = ::fork();
        if (child == 0) {
            ::close(closed);
            char name[] = "try";
            char* argv[] = {name, nullptr};
            CLI::App app("A program.", "gx try");
            const int status = gx::run_program(app, 1, argv, [&] {
                gx::detail::AtomicFile file(folder / "out");
                file.write("data", 4);
                if (closed != 1) gx::print_error("record 7 is skipped\n");
                else std::puts("printed");
                std::fflush(stdout);
                file.commit();
            });
            ::_exit(status);
        }
        int status = -1;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        EXPECT_EQ(WEXITSTATUS(status), closed == 1 ? 2 : 0) << closed;
        EXPECT_EQ(read_text(folder / "out"), "data") << closed;
    }
}
TEST(RunProgram, GoesOnWhereStandardErrorIsFull) {
    const int kept = ::dup(STDERR_FILENO), full = ::open("/dev/full", O_WRONLY);
    ASSERT_EQ(::dup2(full, STDERR_FILENO), STDERR_FILENO);
    char name[] = "try";
    char* argv[] = {name, nullptr};
    CLI::App app("A program.", "gx try");
    const int fine = gx::run_program(app, 1, argv, [] { gx::print_error("a note\n"); });
    const int wrong = gx::run_program(app, 1, argv, [] { throw gx::Error("file 'x' is torn."); });
    ::dup2(kept, STDERR_FILENO);
    ::close(kept), ::close(full);
    std::clearerr(stderr);
    EXPECT_EQ(fine, 0);
    EXPECT_EQ(wrong, 2);
}
TEST(RunProgram, TellsWhatIsThrown) {
    const auto told = [](const auto& thrown, int status) {
        const Answer a = answer({}, [&] { throw thrown; });
        EXPECT_EQ(a.status, status);
        return a.told;
    };
    EXPECT_EQ(told(gx::Error("file 'x' is torn."), 2), "gx try: file 'x' is torn.\n");
    EXPECT_EQ(told(gx::Error("gx: this run can't start"), 2), "gx try: this run can't start\n");
    EXPECT_EQ(told(std::runtime_error("a broken fan"), 1), "gx try: a broken fan\n");
    const gx::LostRank lost({.rank = 1}, {gx::Delivery::Outcome::timed_out, 2});
    EXPECT_EQ(told(lost, 1).find("gx try: rank 1, operation "), 0u);
    EXPECT_EQ(told(std::bad_alloc(), 1).find("gx try: there is not enough memory for this."), 0u);
    const auto again = std::make_error_code(std::errc::resource_unavailable_try_again);
    EXPECT_EQ(told(std::system_error(again), 1).find("gx try: a thread can't be started."), 0u);
    const auto gone = std::make_error_code(std::errc::no_such_device);
    EXPECT_EQ(told(std::system_error(gone, "a fan"), 1).find("gx try: a fan: "), 0u);
}
/// A write above `ulimit -f` is an error that is printed; SIGXFSZ would end the program silently.
TEST(RunProgram, LivesOnWhereAFileGetsTooLarge) {
    (void)std::signal(SIGXFSZ, SIG_DFL);
    EXPECT_EQ(answer({}, [] { (void)std::raise(SIGXFSZ); }).status, 0);
}

// ---- Files --------------------------------------------------------------------------

TEST(ExpectOutputs, NamesOptionAndFileAndLeavesNothing) {
    const Folder folder;
    const auto refused = [](const std::filesystem::path& file) {
        return error_of([&] { gx::expect_outputs({{"--json", file}}); });
    };
    EXPECT_EQ(refused(folder / "a.json"), "no error");
    EXPECT_EQ(refused(""), "no error") << "the option was not given";
    EXPECT_TRUE(std::filesystem::is_empty(folder.path));
    EXPECT_TRUE(holds(refused(folder / "absent/a.json"), "--json: file '", "/absent/a.json' cannot",
                      "choose a file in a folder that exists and is writable"));
    EXPECT_TRUE(holds(refused(folder.path), "--json: file '", "is a folder: name a regular file"));
    EXPECT_EQ(refused("-"), "--json: '-' is not standard output here: name a file, or /dev/stdout");
    EXPECT_FALSE(std::filesystem::exists("-"));
    ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
    EXPECT_EQ(refused(folder / "pipe"), "no error") << "it is not opened before the work";
}
TEST(MakeOutputFolder, SaysWhyThereCanBeNone) {
    const Folder folder;
    gx::make_output_folder("--output", folder / "one/two");
    EXPECT_TRUE(std::filesystem::is_directory(folder / "one/two"));
    gx::make_output_folder("--output", folder / "one/two");  // it is there
    write_text(folder / "file", "one");
    for (const char* name : {"file", "file/below"})
        EXPECT_EQ(error_of([&] { gx::make_output_folder("--output", folder / name); }),
                  "--output: folder '" + (folder / name).string() +
                      "' cannot be made: Not a directory. Give one where files can be written.");
}
TEST(ExpectOutputs, RefusesAFileThatWouldBeOverwritten) {
    const Folder folder;
    const auto one = folder / "one", two = folder / "two";
    EXPECT_EQ(error_of([&] { gx::expect_outputs({{"--json", one}, {"--html", two}}); }),
              "no error");
    std::filesystem::create_symlink("one", two);
    EXPECT_EQ(
        error_of([&] { gx::expect_outputs({{"--json", one}, {"--svg", ""}, {"--html", two}}); }),
        "--json and --html both name file '" + two.string() +
            "': one output would overwrite "
            "the other. Give each a file of its own.");
    write_text(one, "cases");
    EXPECT_EQ(error_of([&] { gx::expect_outputs({{"--out", two}}, {{"--cases", one}}); }),
              "--cases and --out both name file '" + two.string() +
                  "': the input would be "
                  "overwritten. Give each a file of its own.");
    EXPECT_EQ(read_text(one), "cases");
}
TEST(ExpectOutside, RefusesEachWayIntoTheFolder) {
    const Folder folder;
    namespace fs = std::filesystem;
    fs::create_directories(folder / "run/deep");
    write_text(folder / "run/there", "");
    fs::create_directory_symlink("run", folder / "by_folder");
    fs::create_symlink("run/there", folder / "to_a_file");
    fs::create_symlink("run/epoch-0001.safetensors", folder / "to_none_yet");
    fs::create_symlink("to_none_yet", folder / "to_a_link");
    fs::create_symlink("around", folder / "around");
    const auto refused = [&](const fs::path& file, const char* run = "run") {
        return error_of([&] { gx::expect_outside({"--json", file}, {"--output", folder / run}); });
    };
    for (const char* file :
         {"run/new", "run/deep/new", "run/none/new", "run/../run/new", "by_folder/new",
          "by_folder/none/new", "to_a_file", "to_none_yet", "to_a_link"}) {
        for (const char* run : {"run", "by_folder"})
            EXPECT_EQ(refused(folder / file, run),
                      "--json names file '" + (folder / file).string() + "' in folder '" +
                          (folder / run).string() +
                          "' of --output, where it could overwrite a file of the run. Name one "
                          "elsewhere.");
    }
    EXPECT_NE(refused(folder / "later/new", "later"), "no error") << "a folder that is made later";
    for (const char* file : {"new", "running/new", "run/../new", "none/new", "run.json"})
        EXPECT_EQ(refused(folder / file), "no error") << file;
    EXPECT_EQ(refused(folder / "around"), "no error") << "AtomicFile refuses it";
    EXPECT_EQ(refused(folder / "new", "around"), "no error") << "it can be no folder";
    EXPECT_EQ(refused(""), "no error");
}
TEST(ReadInput, RefusesFoldersAbsentAndEndlessFiles) {
    const Folder folder;
    const auto refused = [](const std::filesystem::path& file) {
        return error_of([&] { (void)gx::read_input("--cases", file, 1 << 20); });
    };
    EXPECT_EQ(refused(folder.path),
              "--cases: file '" + folder.path.string() + "' is a folder. Name a file in it.");
    EXPECT_TRUE(holds(refused(folder / "absent"), "absent' cannot be read. Name a file"));
    EXPECT_TRUE(holds(refused("/dev/zero"), "is longer than 1048576 bytes."));
    const std::string text(200'000, 'x');
    write_text(folder / "f", text);
    EXPECT_EQ(gx::read_input("--cases", folder / "f"), text);
}

TEST(CommandLine, IsWrittenAsAShellReadsIt) {
    const char* words[] = {"build/gx_demo", "--json=out/a.json", "a b", "", "it's", "$HOME"};
    EXPECT_EQ(gx::command_line(6, const_cast<char**>(words)),
              R"(build/gx_demo --json=out/a.json 'a b' '' 'it'\''s' '$HOME')");
}

}  // namespace

// Malformed command lines of every program: each must end soon, with a sentence and status 2.
#include <fcntl.h>         // open
#include <poll.h>          // poll
#include <sys/resource.h>  // setrlimit
#include <sys/wait.h>      // waitpid
#include <unistd.h>        // fork, execv

#include <algorithm>   // find
#include <csignal>     // kill
#include <filesystem>  // files of the command lines
#include <fstream>     // the list
#include <map>         // programs by name
#include <random>      // mt19937_64
#include <sstream>     // words
#include <string>      // words
#include <vector>      // lists

#include <gtest/gtest.h>

#include <support/files.hpp>  // Folder

namespace {

using namespace testing_support;
namespace fs = std::filesystem;
using Words = std::vector<std::string>;

// ---- Running a program ----------------------------------------------------------------------

struct Ended {
    int status = -1;  ///< of exit(), or 1000 + the signal
    std::string printed{};
};

/// Runs a program on 10 s of processor time: a hang ends with SIGXCPU, and one that waits for
/// something with SIGKILL after two minutes, which only such a hang takes.
Ended run(const std::string& program, const Words& words, const fs::path& place) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return {};
    const pid_t child = ::fork();
    if (child == 0) {
        const rlimit cpu{10, 10}, core{0, 0};
        ::setrlimit(RLIMIT_CPU, &cpu);
        ::setrlimit(RLIMIT_CORE, &core);
        ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
        ::dup2(ends[1], STDOUT_FILENO);
        ::dup2(ends[1], STDERR_FILENO);
        std::vector<char*> argv{const_cast<char*>(program.c_str())};
        for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
        argv.push_back(nullptr);
        if (::chdir(place.c_str()) == 0) ::execv(program.c_str(), argv.data());
        ::_exit(127);
    }
    ::close(ends[1]);
    Ended out;
    char part[4096];
    pollfd readable{ends[0], POLLIN, 0};
    for (ssize_t n = 1; n > 0;) {
        if (::poll(&readable, 1, 120'000) == 0) ::kill(child, SIGKILL);
        n = ::read(ends[0], part, sizeof part);
        if (n > 0 && out.printed.size() < 1 << 20)
            out.printed.append(part, static_cast<std::size_t>(n));
    }
    ::close(ends[0]);
    int status = 0;
    ::waitpid(child, &status, 0);
    out.status = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    return out;
}

/// Programs of this build, by name; those that are not built here are missing.
const std::map<std::string, std::string>& programs() {
    static const std::map<std::string, std::string> all = [] {
        std::map<std::string, std::string> found;
        std::istringstream paths(GX_PROGRAMS);
        for (std::string path; std::getline(paths, path, ':');)
            if (::access(path.c_str(), X_OK) == 0) found[fs::path(path).filename()] = path;
        return found;
    }();
    return all;
}

std::string shown(const std::string& program, const Words& words) {
    std::string text = program;
    for (const std::string& word : words) text += " '" + word + "'";
    return text;
}

/// A sentence for the user: the program's own line, without traces of an abort.
bool explains(const std::string& printed) {
    for (const char* trace : {"terminate called", "basic_filebuf", "runtime error:", "Assertion",
                              "std::", "vector::_M"})
        if (printed.find(trace) != std::string::npos) return false;
    return printed.find(": ") != std::string::npos;
}

// ---- Command lines of the list --------------------------------------------------------------

/// Output of all_reduce_perf on eight GPUs of one host.
std::string nccl_tests_of_one_host() {
    std::string text = "# Using devices\n";
    for (int r = 0; r < 8; ++r)
        text += "#  Rank " + std::to_string(r) + " Group 0 Pid 1 on host device " +
                std::to_string(r) + " [0000:07:00] V100\n";
    return text +
           "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
           "1000000 250000 float sum -1 100.0 10.00 17.50 0 100.0 10.00 17.50 0\n"
           "2000000 500000 float sum -1 200.0 10.00 17.50 0 200.0 10.00 17.50 0\n"
           "# Avg bus bandwidth    : 17.5\n";
}

/// "name{key=value,...}" as a file: a template of that name with these fields instead of its own;
/// "text{...}": the words themselves.
fs::path write_template(const std::string& word, const fs::path& place) {
    static int count = 0;
    const std::string name = word.substr(1, word.find('{') - 1);
    const auto begin = word.find('{') + 1;
    std::string fields = word.substr(begin, word.rfind('}') - begin), text;
    std::map<std::string, std::string> values;
    if (name == "machine")
        values = {{"name", "\"ours\""}, {"gpu", "\"V100\""},     {"gpus", "4"},
                  {"nic_gbps", "25"},   {"peer_gb_per_s", "20"}, {"nics", "1"}};
    else
        values = {{"gpu", "\"V100\""},          {"gpus_per_node", "8"},
                  {"nic_gbps_per_node", "25"},  {"model", "\"ResNet-50\""},
                  {"batch_per_gpu", "64"},      {"precision", "\"fp32\""},
                  {"framework", "\"PyTorch\""}, {"collective", "\"NCCL ring\""}};
    std::istringstream parts(fields);
    for (std::string part; std::getline(parts, part, ';');) {
        const auto at = part.find('=');
        values[part.substr(0, at)] = part.substr(at + 1);
    }
    for (const auto& [key, value] : values)
        text += (text.empty() ? "" : ", ") + ("\"" + key + "\": " + value);
    text = "{" + text + "}";
    if (name != "machine")
        text = R"([{"id": "a", "group": "g", "conditions": )" + text + R"(, "measured": [
            {"gpus": 8, "nodes": 1, "value": 2000, "unit": "img/s", "role": "base"},
            {"gpus": 16, "nodes": 2, "unit": "img/s", "role": "target"}]}])";
    if (name == "rate")  // of one GPU
        text = R"([{"id": "a", "split": "reference", "conditions": {"gpu": "V100",
            "model": "ResNet-50", "batch_per_gpu": 64}, "measured": [
            {"gpus": 1, "value": 300, "unit": "img/s"}]}])";
    if (name == "nccl") text = nccl_tests_of_one_host();
    if (name == "text") text = fields;
    const fs::path file = place / (name + std::to_string(count++) + ".json");
    write_text(file, text);
    return file;
}

struct Line {
    int number = 0;
    std::string program{}, statuses{}, expected{};
    Words words{};
};

std::vector<Line> read_list(const fs::path& place) {
    std::vector<Line> lines;
    std::ifstream list(GX_COMMAND_LINES);
    int number = 0;
    for (std::string text; std::getline(list, text);) {
        ++number;
        if (text.empty() || text.front() == '#') continue;
        Line line{.number = number};
        const auto arrow = text.find(" => ");
        if (arrow != std::string::npos) line.expected = text.substr(arrow + 4);
        std::istringstream words(text.substr(0, arrow));
        words >> line.program >> line.statuses;
        for (std::string word; words >> word;) {
            if (word == "''") word.clear();
            else if (word == "FOLDER") word = place / "folder";
            else if (word == "ABSENT") word = place / "absent/file";
            else if (word.front() == '@') word = write_template(word, place);
            line.words.push_back(word);
        }
        lines.push_back(line);
    }
    return lines;
}

// ---- Command lines from a seed --------------------------------------------------------------

struct Option {
    std::string name{}, type{};  ///< "--epochs", "INT"; no type: a flag
    bool list = false;
};

/// The options of a program, as its --help lists them.
std::vector<Option> options_of(const std::string& program, const fs::path& place) {
    std::vector<Option> all;
    std::istringstream help(run(program, {"--help"}, place).printed);
    for (std::string line; std::getline(help, line);) {
        if (!line.starts_with("  --")) continue;
        std::istringstream words(line);
        Option o;
        words >> o.name >> o.type;
        const bool typed = o.type.starts_with("INT") || o.type.starts_with("UINT") ||
                           o.type.starts_with("FLOAT") || o.type.starts_with("TEXT");
        o.type = typed ? o.type.substr(0, o.type.find_first_of(":=")) : "";
        o.list = line.find(" ...") != std::string::npos;
        all.push_back(o);
    }
    return all;
}

class Malformed {
public:
    Malformed(std::vector<Option> options, std::uint64_t seed)
        : options_(std::move(options)), random_(seed) {}

    /// One mistake, between words that may be right or wrong themselves.
    Words line(const fs::path& place) {
        Words words;
        for (int before = below(3); before > 0; --before) append(words, sound());
        append(words, mistake(place));
        return words;
    }

private:
    int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
    template <class T>
    const T& any(const std::vector<T>& all) {
        return all[static_cast<std::size_t>(below(static_cast<int>(all.size())))];
    }
    static void append(Words& words, const Words& more) {
        words.insert(words.end(), more.begin(), more.end());
    }
    const Option& option(bool typed) {
        for (;;)
            if (const Option& o = any(options_); !typed || !o.type.empty()) return o;
    }
    Words sound() {
        const Option& o = option(true);
        return {o.name, o.type == "TEXT" ? "text" : std::to_string(1 + below(3))};
    }
    Words joined(const std::string& name, const std::string& value) {
        if (below(2) == 0) return {name, value};
        return {name + "=" + value};
    }
    bool known(const std::string& name) const {
        return std::any_of(options_.begin(), options_.end(),
                           [&](const Option& o) { return o.name == name; }) ||
               name == "--help";
    }

    Words mistake(const fs::path& place) {
        switch (below(8)) {
            case 0: {  // an unknown option: letters changed, or cut off
                std::string name = option(false).name;
                if (below(2) == 0)
                    name =
                        name.substr(0, 3 + static_cast<std::size_t>(below(int(name.size()) - 3)));
                else name[2 + static_cast<std::size_t>(below(int(name.size()) - 2))] = 'z';
                if (known(name)) name += "zz";
                return {name, "1"};
            }
            case 1: return {option(true).name};  // without its value
            case 2: return joined(option(true).name, "");
            case 3: {  // given twice
                for (;;)
                    if (const Option& o = option(true); !o.list)
                        return {o.name, "1", o.name + "=1"};
            }
            case 4: return {any(Words{"word", "-", "1", "\x1b[31m", "--", "=", "-z"}), "other"};
            case 5:
            case 6: {  // no number, or one that nothing is
                for (int tries = 0; tries < 50; ++tries)
                    if (const Option& o = option(true); o.type != "TEXT")
                        return joined(o.name, any(Words{"nan", "-nan", "inf", "-inf", "1e999", "-1",
                                                        "-0.5", "0x10", "1e", "one", "1,5",
                                                        "99999999999999999999999", "+1", "1 2"}));
                return {"--nothing"};
            }
            default: {  // a folder or an absent one in place of an output
                for (const Option& o : options_)
                    if (o.name == "--json")
                        return joined(o.name,
                                      below(2) == 0 ? place / "folder" : place / "absent" / "file");
                return {"--nothing"};
            }
        }
    }

    std::vector<Option> options_;
    std::mt19937_64 random_;
};

// ---- Tests ----------------------------------------------------------------------------------

TEST(CommandLines, OfTheListEndWithTheirStatusAndSentence) {
    const Folder folder;
    fs::create_directories(folder / "folder");
    for (const char* link : {"ENDLESS.json", "ENDLESS.xml"})
        fs::create_symlink("/dev/zero", folder / link);
    int ran = 0;
    std::map<std::string, int> missing;
    for (const Line& line : read_list(folder.path)) {
        const auto program = programs().find(line.program);
        if (program == programs().end()) {
            ++missing[line.program];
            continue;
        }
        ++ran;
        SCOPED_TRACE("line " + std::to_string(line.number) + ": " +
                     shown(line.program, line.words));
        const Ended e = run(program->second, line.words, folder.path);
        EXPECT_NE(line.statuses.find(std::to_string(e.status)), std::string::npos)
            << "status " << e.status << ", expected " << line.statuses << "\n"
            << e.printed;
        EXPECT_TRUE(explains(e.printed)) << e.printed;
        EXPECT_NE(e.printed.find(line.expected), std::string::npos)
            << "expected '" << line.expected << "' in\n"
            << e.printed;
    }
    for (const auto& [program, lines] : missing)
        std::printf("%s is not built here: %d lines left out\n", program.c_str(), lines);
    EXPECT_GT(ran, 0);
}

TEST(CommandLines, OfASeedAreRefused) {
    const Folder folder;
    fs::create_directories(folder / "folder");
    const int parsers = static_cast<int>(programs().size() - programs().count("gx"));
    if (parsers == 0) GTEST_SKIP() << "no program is built here";
    const int each = 1000 / parsers + 1;
    for (const auto& [name, path] : programs()) {
        if (name == "gx") continue;  // has commands before its options; see the list
        const auto options = options_of(path, folder.path);
        ASSERT_FALSE(options.empty()) << name;
        for (int i = 0; i < each; ++i) {
            Malformed malformed(options, static_cast<std::uint64_t>(i));
            const Words words = malformed.line(folder.path);
            const Ended e = run(path, words, folder.path);
            EXPECT_EQ(e.status, 2) << "seed " << i << ": " << shown(name, words) << "\n"
                                   << e.printed;
            EXPECT_TRUE(explains(e.printed)) << shown(name, words) << "\n" << e.printed;
            if (HasFailure() && i > 50) break;
        }
        EXPECT_TRUE(fs::is_empty(folder / "folder")) << name << " left something behind";
    }
}

}  // namespace

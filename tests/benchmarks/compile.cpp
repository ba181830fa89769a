// What the headline program costs to compile: seconds, peak memory, lines; and one test's rebuild.
// Run:     ./gx bench compile [--json FILE] [--source FILE] [--test FILE] [--runs N]
// Prints:  one line a measurement; the budgets are 20 s, 1.5 GB and, for one test, 10 s.
// Times are of processor and wall; on a busy machine read the processor's. The least of N runs.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

struct Cost {
    double wall_seconds = 0;
    double cpu_seconds = 0;  ///< of the command and all that it started
    double peak_memory_bytes = 0;
};

struct Settings {
    std::string compiler = GX_COMPILER;
    fs::path source = fs::path(GX_SOURCE_DIR) / "examples/01_headline.cpp";
    fs::path test = fs::path(GX_SOURCE_DIR) / "tests/reducer/ring_test.cpp";
    std::string json;
    int runs = 3;
};

[[noreturn]] void stop(const std::string& sentence) {
    fmt::print(stderr, "gx bench compile: {}\n", sentence);
    std::exit(2);
}

double seconds(const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
}

// The compiler is a driver that starts the compiler proper; ru_maxrss is of the largest of them.
Cost run(const Words& words, const fs::path& output) {
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    const auto begin = std::chrono::steady_clock::now();
    const pid_t child = fork();
    if (child < 0) stop("no process can be started");
    if (child == 0) {
        const int file = open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
        if (file >= 0) dup2(file, STDOUT_FILENO);
        execvp(arguments[0], arguments.data());
        _exit(127);
    }
    int status = 0;
    rusage used{};
    while (wait4(child, &status, 0, &used) < 0 && errno == EINTR) {
    }
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        stop(fmt::format("'{}' failed; does it compile?", fmt::join(words, " ")));
    }
    return {.wall_seconds = wall.count(),
            .cpu_seconds = seconds(used.ru_utime) + seconds(used.ru_stime),
            .peak_memory_bytes = 1024.0 * static_cast<double>(used.ru_maxrss)};
}

Cost least(int runs, const Words& words, const fs::path& output) {
    Cost best = run(words, output);
    for (int i = 1; i < runs; ++i) {
        const Cost next = run(words, output);
        best.wall_seconds = std::min(best.wall_seconds, next.wall_seconds);
        best.cpu_seconds = std::min(best.cpu_seconds, next.cpu_seconds);
        best.peak_memory_bytes = std::max(best.peak_memory_bytes, next.peak_memory_bytes);
    }
    return best;
}

Words compile_command(const Settings& s, const Words& extra) {
    Words words{s.compiler, "-std=c++20"};
    const std::string folders = GX_FOLDERS;
    for (std::size_t at = 0; at < folders.size();) {
        const std::size_t end = std::min(folders.find(':', at), folders.size());
        words.push_back("-I" + folders.substr(at, end - at));
        at = end + 1;
    }
    words.insert(words.end(), extra.begin(), extra.end());
    return words;
}

std::int64_t lines_of(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return std::count(std::istreambuf_iterator<char>(in), {}, '\n');
}

Settings read(int argc, char** argv) {
    Settings s;
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i];
        if (i + 1 == argc) stop(fmt::format("'{}' wants a value, or is unknown", word));
        const std::string value = argv[++i];
        if (word == "--json") s.json = value;
        else if (word == "--source") s.source = value;
        else if (word == "--test") s.test = value;
        else if (word == "--compiler") s.compiler = value;
        else if (word == "--runs") s.runs = std::max(1, std::atoi(value.c_str()));
        else stop(fmt::format("unknown option '{}': there are --json, --source, --test, "
                              "--compiler and --runs", word));
    }
    if (!fs::exists(s.source)) stop(fmt::format("no program '{}'", s.source.string()));
    return s;
}

void print(const char* what, const Cost& c) {
    fmt::print("{:<34} {:6.2f} s wall  {:6.2f} s cpu  {:5.2f} GB\n", what, c.wall_seconds,
               c.cpu_seconds, c.peak_memory_bytes * 1e-9);
}

void put(nlohmann::ordered_json& to, const std::string& name, const Cost& c) {
    to[name + "_wall_seconds"] = c.wall_seconds;
    to[name + "_cpu_seconds"] = c.cpu_seconds;
    to[name + "_peak_memory_bytes"] = c.peak_memory_bytes;
}

}  // namespace

int main(int argc, char** argv) {
    const Settings s = read(argc, argv);
    std::string place = (fs::temp_directory_path() / "gx_compile_XXXXXX").string();
    if (mkdtemp(place.data()) == nullptr) stop("no temporary folder can be made");
    const fs::path object = fs::path(place) / "a.o", text = fs::path(place) / "a.ii";

    nlohmann::ordered_json found{{"benchmark", "compile"},
                                 {"compiler", s.compiler},
                                 {"source", fs::relative(s.source, GX_SOURCE_DIR).string()},
                                 {"runs", s.runs}};
    fmt::print("{} with {} -O2, best of {}\n", fs::relative(s.source, GX_SOURCE_DIR).string(),
               s.compiler, s.runs);
    const Cost headline =
        least(s.runs, compile_command(s, {"-O2", "-c", s.source.string(), "-o", object.string()}),
              fs::path(place) / "log");
    print("headline program", headline);
    put(found, "headline", headline);
    found["headline_object_bytes"] = fs::file_size(object);

    run(compile_command(s, {"-E", s.source.string()}), text);
    found["headline_preprocessed_lines"] = lines_of(text);
    fmt::print("{:<34} {:6d}\n", "preprocessed lines", lines_of(text));

    if (fs::exists(s.test)) {
        const fs::path program = fs::path(place) / "a.out";
        const Cost test = least(
            s.runs,
            compile_command(s, {"-O2", "-g1", "-I" GX_SOURCE_DIR "/tests", s.test.string(), "-o",
                                program.string(), "-lgtest_main", "-lgmock", "-lgtest",
                                "-lrapidcheck", "-lboost_context", "-lfmt", "-ldnnl", "-lz"}),
            fs::path(place) / "log");
        const std::string name = fs::relative(s.test, GX_SOURCE_DIR).string();
        print(("rebuild of " + name).c_str(), test);
        found["test"] = name;
        put(found, "test_rebuild", test);
    } else {
        fmt::print("{:<34} left out: it is not there\n", s.test.filename().string());
    }
    const bool kept = headline.cpu_seconds < 20 && headline.peak_memory_bytes < 1.5e9;
    found["within_budget"] = kept;
    fmt::print("budget of 20 s and 1.5 GB: {}\n", kept ? "kept" : "EXCEEDED");
    fs::remove_all(place);
    if (!s.json.empty()) {
        std::ofstream out(s.json);
        out << found.dump(2) << '\n';
        if (!out.flush()) stop(fmt::format("cannot write '{}'", s.json));
    }
    return kept ? 0 : 1;
}

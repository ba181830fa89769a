// What the headline program costs to compile, header-only and on gx::compiled, what a program for
// GPUs costs by the same compiler, where CUDA's headers are, and one test's rebuild: seconds, peak
// memory, lines, each beside its budget.
// Run:     ./gx bench compile [--json FILE] [--source FILE] [--test FILE] [--runs N]
// Prints:  one line a measurement, `ok` or `EXCEEDED` behind it; ends with 1 if one is exceeded.
// Times are of processor, the user's share of it, and wall; on a busy machine read the user's
// share. The least of N runs. The test is rebuilt as the preset dev does it: with its flags, on the
// compiled libraries, if this build has them, and with the precompiled headers of others and the
// library of their common templates (not counted).
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
#include <stdexcept>
#include <string>
#include <vector>

#include <gx/core/error.hpp>
#include <gx/io/atomic_file.hpp>

#include "../../sims/support/command_line.hpp"  // expect_outputs, run_program
#include "machine.hpp"                          // cpu_name

namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

struct Cost {
    double wall_seconds = 0;
    double cpu_seconds = 0;   ///< of the command and all that it started
    double user_seconds = 0;  ///< the part outside the kernel
    double peak_memory_bytes = 0;
};

struct Settings {
    std::string compiler = GX_COMPILER;
    fs::path source = fs::path(GX_SOURCE_DIR) / "examples/01_headline.cpp";
    fs::path test = fs::path(GX_SOURCE_DIR) / "tests/reducer/ring_test.cpp";
    std::string json{};
    int runs = 3;
};

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
    if (child < 0) throw std::runtime_error("no process can be started");
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
        throw std::runtime_error(
            fmt::format("'{}' failed; does it compile?", fmt::join(words, " ")));
    }
    return {.wall_seconds = wall.count(),
            .cpu_seconds = seconds(used.ru_utime) + seconds(used.ru_stime),
            .user_seconds = seconds(used.ru_utime),
            .peak_memory_bytes = 1024.0 * static_cast<double>(used.ru_maxrss)};
}

Cost least(int runs, const Words& words, const fs::path& output) {
    Cost best = run(words, output);
    for (int i = 1; i < runs; ++i) {
        const Cost next = run(words, output);
        best.wall_seconds = std::min(best.wall_seconds, next.wall_seconds);
        best.cpu_seconds = std::min(best.cpu_seconds, next.cpu_seconds);
        best.user_seconds = std::min(best.user_seconds, next.user_seconds);
        best.peak_memory_bytes = std::max(best.peak_memory_bytes, next.peak_memory_bytes);
    }
    return best;
}

/// `first` and a part of the list, for each that colons separate.
Words each(const std::string& first, const std::string& list) {
    Words words;
    for (std::size_t at = 0; at < list.size();) {
        const std::size_t end = std::min(list.find(':', at), list.size());
        words.push_back(first + list.substr(at, end - at));
        at = end + 1;
    }
    return words;
}

Words compile_command(const Settings& s, const Words& extra) {
    Words words{s.compiler, "-std=c++20"};
    for (const Words& more : {each("-I", GX_FOLDERS), extra})
        words.insert(words.end(), more.begin(), more.end());
    return words;
}

std::int64_t lines_of(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return std::count(std::istreambuf_iterator<char>(in), {}, '\n');
}

/// What a measurement may cost; 0: it has no such budget.
struct Budget {
    double cpu_seconds = 0, peak_memory_bytes = 0;
    [[nodiscard]] bool holds(const Cost& c) const {
        return (cpu_seconds == 0 || c.cpu_seconds <= cpu_seconds) &&
               (peak_memory_bytes == 0 || c.peak_memory_bytes <= peak_memory_bytes);
    }
    [[nodiscard]] std::string text(const Cost& c) const {
        std::string limits;
        if (cpu_seconds > 0) limits += fmt::format(" {:g} s", cpu_seconds);
        if (peak_memory_bytes > 0) limits += fmt::format(" {:g} MB", peak_memory_bytes * 1e-6);
        return limits.empty()
                   ? ""
                   : fmt::format("  {} (budget{})", holds(c) ? "ok" : "EXCEEDED", limits);
    }
};

void print(const std::string& what, const Cost& c, const Budget& b) {
    fmt::print("{:<40} {:6.2f} s cpu  {:6.2f} s user  {:6.2f} s wall  {:5.0f} MB{}\n", what,
               c.cpu_seconds, c.user_seconds, c.wall_seconds, c.peak_memory_bytes * 1e-6,
               b.text(c));
}

void put(nlohmann::ordered_json& to, const std::string& name, const Cost& c) {
    to[name + "_wall_seconds"] = c.wall_seconds;
    to[name + "_cpu_seconds"] = c.cpu_seconds;
    to[name + "_user_seconds"] = c.user_seconds;
    to[name + "_peak_memory_bytes"] = c.peak_memory_bytes;
    to[name + "_peak_mb"] = c.peak_memory_bytes * 1e-6;
}

/// What every test includes; cmake/GxTests.cmake has the list that the build uses.
constexpr const char* precompiled =
    "#include <gmock/gmock.h>\n#include <gtest/gtest.h>\n#include <rapidcheck.h>\n"
    "#include <rapidcheck/gtest.h>\n#include <algorithm>\n#include <filesystem>\n"
    "#include <functional>\n#include <map>\n#include <random>\n#include <string>\n"
    "#include <thread>\n#include <vector>\n#include <support/common_templates.hpp>\n";

/// A rebuild of one test: compiled and linked.
Cost rebuild(const Settings& s, const fs::path& place, bool compiled, bool precompile) {
    Words flags{"-Og", "-g1", "-I" GX_SOURCE_DIR "/tests"};
    if (compiled) flags.push_back("-DGX_COMPILED");
    if (precompile) {
        const fs::path header = place / "test_headers.hpp";
        std::ofstream(header) << precompiled;
        Words words = compile_command(s, flags);
        words.insert(words.end(),
                     {"-x", "c++-header", header.string(), "-o", header.string() + ".gch"});
        run(words, place / "log");
        flags.insert(flags.end(), {"-Winvalid-pch", "-include", header.string()});
        const std::string templates = (place / "templates.o").string();
        words = compile_command(s, flags);
        words.insert(words.end(), {"-c", GX_SOURCE_DIR "/cmake/test_headers.cpp", "-o", templates});
        run(words, place / "log");
        flags.push_back(templates);
    }
    flags.insert(flags.end(), {s.test.string(), "-o", (place / "a.out").string()});
    const Words libraries = each("", compiled ? GX_COMPILED_LIBRARIES : "");
    flags.insert(flags.end(), libraries.begin(), libraries.end());
    for (const char* library : {"-lgtest_main", "-lgmock", "-lgtest", "-lrapidcheck",
                                "-lboost_context", "-lfmt", "-ldnnl", "-lz", "-ldl"})
        flags.push_back(library);
    return least(s.runs, compile_command(s, flags), place / "log");
}

/// Exit status: 0, or 1 if a budget is exceeded.
int measure(const Settings& s) {
    gx::expect_outputs({{"--json", s.json}}, {{"--source", s.source}, {"--test", s.test}});
    if (!fs::is_regular_file(s.source))
        throw gx::Error(
            fmt::format("--source: file '{}' cannot be read. Name a program of one "
                        "file.",
                        s.source.string()));
    std::string folder = (fs::temp_directory_path() / "gx_compile_XXXXXX").string();
    if (mkdtemp(folder.data()) == nullptr)
        throw std::runtime_error("no temporary folder can be made");
    const fs::path place = folder, object = place / "a.o", text = place / "a.ii";
    const Budget of_compiled{.cpu_seconds = 5, .peak_memory_bytes = 450e6};
    const Budget of_header_only{.cpu_seconds = 12}, of_test{.cpu_seconds = 4};
    const Budget of_gpus{.cpu_seconds = 6};

    nlohmann::ordered_json found{{"benchmark", "compile"},
                                 {"compiler", s.compiler},
                                 {"cpu", gx::bench::cpu_name()},
                                 {"source", fs::relative(s.source, GX_SOURCE_DIR).string()},
                                 {"runs", s.runs}};
    fmt::print("{} with {} -O2, best of {}, on {}\n",
               fs::relative(s.source, GX_SOURCE_DIR).string(), s.compiler, s.runs,
               gx::bench::cpu_name());
    const Words compile{"-O2", "-c", s.source.string(), "-o", object.string()};
    Words on_libraries = compile;
    on_libraries.push_back("-DGX_COMPILED");
    const Cost compiled = least(s.runs, compile_command(s, on_libraries), place / "log");
    print("headline program, compiled libraries", compiled, of_compiled);
    const Cost headline = least(s.runs, compile_command(s, compile), place / "log");
    print("headline program, header-only", headline, of_header_only);
    put(found, "headline", headline);
    put(found, "headline_compiled", compiled);
    put(found, "headline_header_only", headline);
    found["headline_object_bytes"] = fs::file_size(object);

    run(compile_command(s, {"-E", s.source.string()}), text);
    found["headline_preprocessed_lines"] = lines_of(text);
    fmt::print("{:<40} {:6d}\n", "preprocessed lines, header-only", lines_of(text));

    bool kept = of_compiled.holds(compiled) && of_header_only.holds(headline);
    const fs::path gpus = fs::path(GX_SOURCE_DIR) / "examples/09_gpus.cpp";
    const Words folders = each("-isystem", GX_GPU_FOLDERS);
    if (folders.empty()) {
        fmt::print("{:<40} skipped: no CUDA headers\n", "GPU program, compiled libraries");
    } else {
        Words words{"-O2", "-DGX_COMPILED", "-c", gpus.string(), "-o", object.string()};
        words.insert(words.end(), folders.begin(), folders.end());
        const Cost cost = least(s.runs, compile_command(s, words), place / "log");
        print("GPU program, compiled libraries", cost, of_gpus);
        put(found, "gpu_program", cost);
        kept = kept && of_gpus.holds(cost);
    }
    if (fs::exists(s.test)) {
        const bool libraries = !std::string(GX_COMPILED_LIBRARIES).empty();
        const std::string name = fs::relative(s.test, GX_SOURCE_DIR).string();
        const Cost test = rebuild(s, place, libraries, true);
        print("rebuild of " + name, test, of_test);
        const Cost plain = rebuild(s, place, false, false);
        print("  header-only, nothing precompiled", plain, {});
        found["test"] = name;
        found["test_on_compiled_libraries"] = libraries;
        put(found, "test_rebuild", test);
        put(found, "test_rebuild_header_only", plain);
        kept = kept && of_test.holds(test);
    } else {
        fmt::print("{:<40} skipped: file not found\n", s.test.filename().string());
    }
    found["within_budget"] = kept;
    fmt::print("all budgets: {}\n", kept ? "ok" : "EXCEEDED");
    fs::remove_all(place);
    if (!s.json.empty()) gx::write_file(s.json, found.dump(2) + "\n");
    return kept ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    Settings s;
    CLI::App app("What the headline program and one test cost to compile, beside budgets.",
                 "gx bench compile");
    app.option_defaults()->always_capture_default();
    app.add_option("--source", s.source, "program of one file");
    app.add_option("--test", s.test, "its rebuild is measured, if it is there");
    app.add_option("--compiler", s.compiler, "command of the compiler");
    app.add_option("--runs", s.runs, "of each; the least counts")->check(gx::count_in(1, 1000));
    app.add_option("--json", s.json, "also write what was measured there");
    return gx::run_program(app, argc, argv, [&] { return measure(s); });
}

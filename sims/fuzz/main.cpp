// gx_fuzz: a deterministic campaign: thousands of seeds of clusters, reducers and faults.
// Run:    build/dev/gx_fuzz --seconds 60
// Exit:   0 all right; 3 liveness, 4 correctness, 5 a seeded bug was not found, 6 crash; 2 for a
//         command line that cannot be used; 1 where the campaign itself fails, as without memory
#include <algorithm>  // find, max
#include <charconv>   // from_chars
#include <chrono>     // wall seconds
#include <csignal>    // SIGABRT
#include <cstdio>     // fputs
#include <cstring>    // strlen
#include <string>     // text
#include <vector>     // reducers

#include <unistd.h>  // write

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <gx/io/atomic_file.hpp>  // write_file
#include <gx/io/json_text.hpp>    // json_quoted
#include <gx/io/nearest.hpp>      // unknown_name

#include <fuzz/campaign.hpp>  // campaign

#include "../support/command_line.hpp"  // run_program

namespace {

using namespace gx::sim::fuzz;

struct Arguments {
    double seconds = 0;
    std::uint64_t seed = 0, first = 1, count = 0, progress = 0;
    std::string part{};  // "2/4"
    bool one = false, table = false, list = false;
    std::string bug{}, json{};
    std::vector<std::string> only{};  ///< names of reducers
};

// What a crash prints: made before each seed, because little is safe in a handler.
char last_words[256] = "";
void crashed(int) {
    const auto ignored = ::write(STDERR_FILENO, last_words, std::strlen(last_words));
    ::_exit(ignored >= 0 ? exit_code(Kind::crash) : 1);
}

/// The reducers named by `--reducer`, in the order of the list; all if none is.
std::vector<FuzzedReducer> chosen(const std::vector<std::string>& names) {
    if (names.empty()) return reducers();
    std::vector<std::string_view> known;
    for (const FuzzedReducer& r : reducers()) known.push_back(r.name);
    for (const std::string& name : names)
        if (std::find(known.begin(), known.end(), name) == known.end())
            throw gx::Error(gx::unknown_name("reducer", name, known));
    std::vector<FuzzedReducer> list;
    for (const FuzzedReducer& r : reducers())
        if (std::find(names.begin(), names.end(), r.name) != names.end()) list.push_back(r);
    return list;
}

/// A scenario depends on the number of reducers by its reducer alone.
std::string replay(std::uint64_t seed, const Arguments& a) {
    std::string line = fmt::format("gx_fuzz --seed {}", seed);
    if (!a.bug.empty()) line += " --bug " + a.bug;
    if (a.only.empty()) return line;
    const auto from = chosen(a.only);
    const int drawn = drawn_reducer(seed, static_cast<int>(from.size()));
    return line + fmt::format(" --reducer '{}'", from[static_cast<std::size_t>(drawn)].name);
}
void remember(std::uint64_t seed, const Arguments& a) {
    const std::string text =
        fmt::format("gx_fuzz: seed {} crashed. Replay: {}\n", seed, replay(seed, a));
    std::snprintf(last_words, sizeof last_words, "%s", text.c_str());
}

void write_json(const std::string& path, const CampaignReport& r, const Arguments& a,
                std::uint64_t first, double wall) {
    const std::string text = fmt::format(
        "{{\"first\":{},\"seeds\":{},\"twice\":{},\"with_faults\":{},\"worlds\":{},"
        "\"updates\":{},\"simulated_seconds\":{},\"wall_seconds\":{},\"cells\":{},\"covered\":{},"
        "\"stack_cells\":{},\"stacks_covered\":{},\"race_seeds\":{},\"wired_seeds\":{},"
        "\"outcome\":{},\"failing_seed\":{},\"sentence\":{},\"replay\":{}}}\n",
        first, r.seeds, r.twice, r.with_faults, r.worlds, r.updates, r.simulated_seconds, wall,
        r.coverage.cells(), r.coverage.covered(), Coverage::stack_cells(),
        r.coverage.stacks_covered(), r.coverage.races(), r.coverage.wired(),
        gx::json_quoted(std::string(name_of(r.failure.kind))), r.failing_seed,
        gx::json_quoted(r.failure.sentence),
        gx::json_quoted(r.failure.kind == Kind::right ? "" : replay(r.failing_seed, a)));
    gx::write_file(path, text);
}

const SeededBug* find_bug(const std::string& name) {
    if (name.empty()) return nullptr;
    for (const SeededBug& p : seeded_bugs())
        if (p.name == name) return &p;
    std::vector<std::string_view> known;
    for (const SeededBug& p : seeded_bugs()) known.push_back(p.name);
    throw gx::Error(gx::unknown_name("seeded bug", name, known));
}

/// The seeds of `--part NUMBER/PARTS`.
SeedRange in_part(SeedRange all, const std::string& part) {
    if (part.empty()) return all;
    std::uint64_t number = 0, parts = 0;
    const char* const end = part.data() + part.size();
    const auto a = std::from_chars(part.data(), end, number);
    const bool slash = a.ec == std::errc{} && a.ptr != end && *a.ptr == '/';
    const auto b = std::from_chars(slash ? a.ptr + 1 : end, end, parts);
    const bool whole = slash && b.ec == std::errc{} && b.ptr == end;
    if (!whole || number < 1 || number > parts || parts > all.count)
        throw gx::Error("--part is '" + part + "': give NUMBER/PARTS, such as 2/4 for the second " +
                        "of four parts, with at least one seed in each");
    return part_of(all, number, parts);
}

int run(const Arguments& a) {
    if (a.list) {
        for (const FuzzedReducer& s : reducers()) fmt::print("{}\n", s.name);
        for (const SeededBug& p : seeded_bugs()) fmt::print("--bug {:16} {}\n", p.name, p.what);
        return 0;
    }
    const SeededBug* bug = find_bug(a.bug);
    gx::expect_outputs({{"--json", a.json}});
    const std::vector<FuzzedReducer> from =
        bug ? std::vector<FuzzedReducer>{bug->reducer} : chosen(a.only);
    const Tampering tampering = bug ? bug->tampering : Tampering{};
    CampaignOptions o{.first = a.first};
    o.began = [&](std::uint64_t s) {
        remember(s, a);
        if (a.progress == 0 || s == o.first || (s - o.first) % a.progress != 0) return;
        gx::print_error("{} of {} seeds, none has failed\n", s - o.first, o.count);
    };
    const auto begin = std::chrono::steady_clock::now();
    const auto wall = [&] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    const std::uint64_t left = ~std::uint64_t{0} - a.first;  // seeds after the first
    const std::uint64_t usual = a.bug.empty() ? 200 : 3000;  // a bug ends the campaign
    o.count = a.count > 0 ? a.count : a.seconds > 0 ? std::max(left, std::uint64_t{1}) : usual;
    if (o.count > 0 && o.count - 1 > left)
        throw gx::Error(
            fmt::format("--first {}: {} seeds from there pass the last one, "
                        "18446744073709551615. Begin earlier or ask for fewer.",
                        a.first, o.count));
    if (a.seconds > 0) o.enough = [&] { return wall() >= a.seconds; };
    const SeedRange range = in_part({o.first, o.count}, a.part);
    o.first = range.first, o.count = range.count;
    if (a.one) o.first = a.seed, o.count = 1, o.twice_every = 1;
    const CampaignReport r = campaign(from, tampering, o);
    const double took = wall();
    if (r.seeds == 0)
        throw gx::Error(
            fmt::format("--seconds {}: this is too short for one seed. Allow more.", a.seconds));

    if (a.table) fmt::print("{}\n{}\n", r.coverage.table(from), r.coverage.stacks());
    fmt::print(
        "{} seeds from {} in {:.1f} s, {:.0f} a second; {} with faults, {} twice; "
        "{} worlds, {} updates, {:.0f} simulated seconds\n",
        r.seeds, o.first, took, static_cast<double>(r.seeds) / took, r.with_faults, r.twice,
        r.worlds, r.updates, r.simulated_seconds);
    fmt::print(
        "coverage: {} of {} cells (reducer x size class x fault), {} of {} (profile x "
        "fabric); {} seeds looked for races, {} were on wired machines\n",
        r.coverage.covered(), r.coverage.cells(), r.coverage.stacks_covered(),
        Coverage::stack_cells(), r.coverage.races(), r.coverage.wired());
    if (!a.json.empty()) write_json(a.json, r, a, o.first, took);
    if (a.one) fmt::print("{}", describe(r.scenario, from));
    if (r.failure.kind == Kind::right) {  // the failing seed may be 0
        if (!bug) return 0;
        fmt::print("the seeded bug '{}' was not found\n", a.bug);
        return a.one ? 0 : 5;
    }
    fmt::print("FAILED, {}: {}\n{}replay: {}\n", name_of(r.failure.kind), r.failure.sentence,
               describe(r.scenario, from), replay(r.failing_seed, a));
    return bug && !a.one ? 0 : exit_code(r.failure.kind);
}

}  // namespace

int main(int argc, char** argv) {
    Arguments a;
    CLI::App app{"A deterministic campaign: clusters, stacks, reducers and faults, from seeds.",
                 "gx_fuzz"};
    auto* seconds =
        app.add_option("--seconds", a.seconds, "go on for so long")->check(gx::above_zero());
    auto* seed = app.add_option("--seed", a.seed, "replay one seed, twice")->excludes(seconds);
    app.add_option("--first", a.first, "the first seed (1)")->excludes(seed);
    auto* count =
        app.add_option("--count", a.count,
                       "so many seeds (200, with --bug 3000, or as many as --seconds allow)")
            ->check(gx::count_in(1, 1'000'000'000'000))
            ->excludes(seed);
    app.add_option("--part", a.part,
                   "run part NUMBER/PARTS of the seeds, such as 2/4: one process a part")
        ->needs(count)
        ->excludes(seed);
    app.add_option("--progress", a.progress, "print a line on stderr after each so many seeds");
    auto* bug =
        app.add_option("--bug", a.bug, "put a bug in: it must be found; exit 5 when it is not");
    app.add_option("--reducer", a.only, "draw from this reducer, as --list prints it; repeatable")
        ->excludes(bug);
    app.add_option("--json", a.json, "write the report to a file");
    app.add_flag("--coverage", a.table, "print reducer x size class x fault, and profile x fabric");
    app.add_flag("--list", a.list, "print the reducers and the seeded bugs");
    std::signal(SIGABRT, crashed);
    std::signal(SIGSEGV, crashed);
    std::signal(SIGFPE, crashed);
    return gx::run_program(app, argc, argv, [&] {
        a.one = seed->count() > 0;
        return run(a);
    });
}

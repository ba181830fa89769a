// Kills a random rank of an MPI job at a random moment of training: every survivor names it with
// step, bucket and operation, or the phase, nothing hangs, no process is left, no checkpoint is
// lost, and a resumed run has all bits.
// GX_KILLS=100 GX_SEED=1 repeats more kills of each MPI, from another seed; the default is 3.
// GX_KILLS_JSON=FILE appends a line to FILE for each MPI: its counts, and what was done when.
#include "mpi_run.hpp"

#include <dirent.h>  // opendir

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <random>
#include <string_view>
#include <thread>

#include <benchmarks/machine.hpp>

namespace {

using namespace gx::mpi_tests;
using testing_support::Folder;
using testing_support::read_text;

/// What a rank says that has come to the end.
const std::string trained = "the weights of threads";

class MpiKill : public OnMpi {};
INSTANTIATE_TEST_SUITE_P(Both, MpiKill, both_mpis, name_of_mpi);

int from_environment(const char* name, int otherwise) {
    const char* const text = std::getenv(name);
    return text == nullptr ? otherwise : std::atoi(text);
}

/// Whether a process has `word` in its command line, zombies aside.
bool has_process_with(const std::string& word) {
    bool found = false;
    DIR* const all = ::opendir("/proc");
    while (const dirent* const one = ::readdir(all)) {
        const std::string line = read_text(std::string("/proc/") + one->d_name + "/cmdline");
        found |= line.find(word) != line.npos;
    }
    ::closedir(all);
    return found;
}
/// ... and still has one after the time that ranks are given behind their launcher's end.
bool leaves_process_with(const std::string& word) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    while (has_process_with(word)) {
        if (std::chrono::steady_clock::now() > end) return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
}

/// Whether rank `r` has said of the loss of `lost` what was done then: by its own error, or by a
/// line on stderr.
bool names(const JobEnd& end, int r, int lost) {
    const std::string who = "rank " + std::to_string(lost) + " ";
    const std::string& said = end.said[static_cast<std::size_t>(r)];
    const bool by_error =
        said.find(who + "is lost") != said.npos || said.find(who + "stopped first") != said.npos ||
        said.find(who + "(host ") != said.npos || said.find(who + "did not ") != said.npos;
    if (by_error && said.find("operation ") != said.npos) return true;
    const std::size_t line = end.output.find("gx: " + who);
    return line != end.output.npos &&
           end.output.find("Rank " + std::to_string(r) + " was stopped in ", line) !=
               end.output.npos;
}

/// Whether the launcher has ended all survivors while they met, for which they have 60 s. Open
/// MPI's mpirun may hang behind that where a rank dies as it connects: "PMIX ERROR: UNREACHABLE".
bool all_were_ended(const JobEnd& end, int ranks, int lost) {
    for (int r = 0; r < ranks; ++r)
        if (r != lost && end.output.find("gx: rank " + std::to_string(r) +
                                         " is ended by its launcher") == end.output.npos)
            return false;
    return true;
}

const std::string by_launcher_alone = "MPI's start: by the launcher or MPI alone";

/// What the first survivor to say so did when it was stopped, as in "all-reduce".
std::string phase_of(const JobEnd& end, int lost) {
    const auto operation = [](const std::string& words) -> std::string {
        const std::string before = "operation ";
        const std::size_t at = words.rfind(before);
        if (at == words.npos) return "";
        const std::string rest = words.substr(at + before.size());
        return rest.substr(0, std::min(rest.find_first_of(",.(;\n"), rest.find(": rank ")));
    };
    for (std::size_t r = 0; r < end.said.size(); ++r)
        if (static_cast<int>(r) != lost)
            if (std::string found = operation(end.said[r]); !found.empty()) return found;
    const std::string found = operation(end.output);
    return found.empty() ? by_launcher_alone : found;
}

/// Whether no survivor has gone on, and what they did was to meet. Of a kill `at_start` they may
/// say nothing: MPICH ends a process by an error of its own where another dies in MPI_Init.
bool before_all_had_met(const JobEnd& end, int ranks, int lost, bool at_start) {
    for (int r = 0; r < ranks; ++r)
        if (r != lost && end.said[static_cast<std::size_t>(r)] == trained) return false;
    const std::string phase = phase_of(end, lost);
    return phase == "meeting of all ranks" || (at_start && phase == by_launcher_alone);
}

/// The kills of one MPI, and what came of them.
struct Tally {
    int kills = 0;
    int by_all = 0;          ///< every survivor named the rank and what it did
    int before_met = 0;      ///< the ranks had not met: their phase was named, or nothing
    int hangs = 0;           ///< of a rank
    int launcher_hangs = 0;  ///< all ranks had ended, and mpirun had not
    int processes_left = 0, checkpoints_lost = 0, resumed = 0;
    std::map<std::string, int> phases{};
    /// From a kill until each survivor had written its error, or the job had ended.
    std::vector<double> seconds{}, seconds_before_met{};

    static double longest(const std::vector<double>& times) {
        return times.empty() ? 0 : *std::ranges::max_element(times);
    }
    static double median(std::vector<double> times) {
        std::ranges::sort(times);
        return times.empty() ? 0 : times[times.size() / 2];
    }
    void append_to(const char* file, const std::string& mpi, int ranks, unsigned seed) const {
        std::ofstream out(file, std::ios::app);
        out << "{\"mpi\": \"" << mpi << "\", \"ranks\": " << ranks << ", \"seed\": " << seed
            << ", \"cpu\": \"" << gx::bench::cpu_name() << "\", \"kills\": " << kills
            << ", \"named_by_every_survivor\": " << by_all
            << ", \"before_all_had_met\": " << before_met << ", \"hangs\": " << hangs
            << ", \"hangs_of_the_launcher\": " << launcher_hangs
            << ", \"processes_left\": " << processes_left
            << ", \"checkpoints_lost\": " << checkpoints_lost
            << ", \"resumed_to_the_same_bits\": " << resumed
            << ", \"seconds_until_named\": {\"median\": " << median(seconds)
            << ", \"longest\": " << longest(seconds)
            << "}, \"seconds_until_the_job_is_over_before_all_had_met\": {\"median\": "
            << median(seconds_before_met) << ", \"longest\": " << longest(seconds_before_met)
            << "}, \"phases\": {";
        const char* comma = "";
        for (const auto& [phase, count] : phases)
            out << comma << "\"" << phase << "\": " << count, comma = ", ";
        out << "}}\n";
    }
};

/// From the kill, which the rank has written to a file before, until each survivor had ended or
/// written its error; nothing where there was no kill.
std::optional<double> seconds_until_named(const Folder& folder, const JobEnd& end, int ranks,
                                          int lost, std::chrono::system_clock::time_point over) {
    const std::string killed = read_text(folder / "killed_at");
    if (killed.empty() || end.said[static_cast<std::size_t>(lost)] == trained) return {};
    double last = 0;
    for (int r = 0; r < ranks; ++r) {
        if (r == lost) continue;
        auto when = over;
        const auto file = folder.path / std::to_string(r);
        if (std::filesystem::exists(file))
            when = std::chrono::file_clock::to_sys(std::filesystem::last_write_time(file));
        last = std::max(last, std::chrono::duration<double>(when.time_since_epoch()).count());
    }
    return last - std::stod(killed);
}

/// Every fourth kill comes within 300 ms of the start: before the ranks have met, or before the
/// first step. The others come within 3 ms of the beginning of a step, of the last one too: in
/// steps, checkpoints, evaluations and after the run. A rank that has ended before its kill is no
/// kill: another one is drawn.
TEST_P(MpiKill, EverySurvivorNamesTheLostRankAndTheRunIsResumed) {
    constexpr int ranks = 3, steps = 56;
    const int kills = from_environment("GX_KILLS", 3);
    const auto seed = static_cast<unsigned>(from_environment("GX_SEED", 1));
    std::mt19937 random(seed);
    const auto draw = [&](int most) {
        return static_cast<int>(random() % static_cast<unsigned>(most));
    };
    Tally tally;
    for (int k = 0; tally.kills < kills && k < 2 * kills + 4; ++k) {
        const bool at_start = k % 4 == 3;
        const int lost = k % ranks, step = at_start ? 0 : 1 + draw(steps),
                  ns = 1 + draw(at_start ? 300'000'000 : 3'000'000);
        const Folder folder;
        const std::string what =
            std::to_string(lost) + " " + std::to_string(step) + " " + std::to_string(ns);
        const JobEnd end =
            mpi_run(GetParam(), ranks, "life " + what, GetParam(), folder, at_start ? 40 : 100);
        const auto seconds =
            seconds_until_named(folder, end, ranks, lost, std::chrono::system_clock::now());
        bool by_all = true;
        std::string said;
        for (int r = 0; r < ranks; ++r) {
            by_all &= r == lost || names(end, r, lost);
            said += "  '" + end.said[static_cast<std::size_t>(r)] + "'\n";
        }
        if (!seconds && !by_all) continue;
        const bool before_met = !by_all && before_all_had_met(end, ranks, lost, at_start);
        const bool late = end.status == 124, left = leaves_process_with(folder.path.string());
        const bool launcher_hangs = late && all_were_ended(end, ranks, lost);
        const bool hangs = late && !launcher_hangs;
        ++tally.kills;
        tally.by_all += by_all, tally.before_met += before_met;
        tally.hangs += hangs, tally.launcher_hangs += launcher_hangs;
        tally.processes_left += left;
        if (seconds && !late)
            (by_all ? tally.seconds : tally.seconds_before_met).push_back(*seconds);
        ++tally.phases[phase_of(end, lost)];
        if (kills > 10 && tally.kills % 10 == 0)
            std::printf("%s: %d kills\n", GetParam().name, tally.kills), std::fflush(stdout);
        EXPECT_TRUE(by_all || before_met) << "rank, step, ns: " << what << "\n"
                                          << said << end.output;
        EXPECT_FALSE(hangs) << "it hung: " << end.output;
        EXPECT_FALSE(left) << "a process is left";
        const JobEnd next = mpi_run(GetParam(), ranks, "life", GetParam(), folder);
        bool same = next.status == 0, is_lost = false;
        for (const std::string& words : next.said) {
            same &= words == trained;
            is_lost |= words.starts_with("the checkpoint before");
        }
        EXPECT_TRUE(same) << "rank, step, ns: " << what << "\n" << next.said[0] << next.output;
        tally.resumed += same, tally.checkpoints_lost += is_lost;
    }
    EXPECT_EQ(tally.kills, kills) << "too many ranks ended before their kills";
    std::printf(
        "%s: %d kills of a rank of %d (seed %u): %d named by every survivor, %d before "
        "all ranks had met; %d hangs, %d of the launcher alone, %d checkpoints lost, %d "
        "resumed to the same bits; "
        "named after %.3f s (median), %.3f s (longest)\n",
        GetParam().name, tally.kills, ranks, seed, tally.by_all, tally.before_met, tally.hangs,
        tally.launcher_hangs, tally.checkpoints_lost, tally.resumed, Tally::median(tally.seconds),
        Tally::longest(tally.seconds));
    for (const auto& [phase, count] : tally.phases)
        std::printf("  %4d in %s\n", count, phase.c_str());
    if (const char* const file = std::getenv("GX_KILLS_JSON"))
        tally.append_to(file, GetParam().name, ranks, seed);
}

TEST_P(MpiKill, WhileItWorksOnMemoryThatAllShare) {
    for (const int lost : {0, 1, 2}) {
        const JobEnd end = run(3, "killed_sharing " + std::to_string(lost));
        EXPECT_NE(end.status, 124) << "it hung: " << end.output;
        for (const int r : {0, 1, 2})
            EXPECT_TRUE(r == lost || names(end, r, lost)) << "rank " << r << "\n" << end.output;
    }
}
TEST_P(MpiKill, BeforeTheFirstRunAndAfterTheLastOneThePhaseIsNamed) {
    // The launcher may end a survivor before it knows who is lost.
    const auto is_ended = [](const JobEnd& end, int r, const std::string& when) {
        return testing_support::holds(end.output,
                                      "rank " + std::to_string(r) + " is ended by its launcher in ",
                                      "operation meeting of all ranks, " + when);
    };
    const JobEnd before = run(3, "phase before");
    for (const int r : {0, 2})
        EXPECT_TRUE(testing_support::holds(before.said[static_cast<std::size_t>(r)],
                                           "rank 1 (host ", ") is lost: ", "operation ") ||
                    is_ended(before, r, "before the first run"))
            << before.output;
    const JobEnd after = run(3, "phase after");
    EXPECT_EQ(after.said[0], "returned") << "its run has";
    EXPECT_TRUE(testing_support::holds(after.output, "gx: rank 1 (host ", ") is lost: ",
                                       "Rank 0 was stopped in operation no run: after the last"))
        << after.output;
    EXPECT_TRUE(testing_support::holds(after.output,
                                       "Rank 2 was stopped in operation no run: after the last") ||
                is_ended(after, 2, "after a run"))
        << after.output;
    for (const JobEnd* end : {&before, &after}) {
        // Where the others have ended well, Hydra, MPICH's launcher, may end with 0.
        if (end == &before || std::string_view(GetParam().name) != "Mpich") {
            EXPECT_NE(end->status, 0);
        }
        EXPECT_NE(end->status, 124) << "it hung";
    }
}

TEST_P(MpiKill, AProcessThatItsLauncherEndsAtAMeetingNamesIt) {
    const JobEnd end = run(1, "meeting_is_ended after a run");
    EXPECT_TRUE(testing_support::holds(end.output,
                                       " is ended by its launcher in operation meeting of all "
                                       "ranks, after a run. Look at the errors"))
        << end.output;
    EXPECT_EQ(end.said[0], "") << "it ended";
    EXPECT_NE(end.status, 0);
}

/// The line of README.md: a rank of each of three attempts is killed, rank 0 first, and the fourth
/// ends with the weights of threads.
TEST_P(MpiKill, ALoopOfTheShellMakesARunSurviveKills) {
    const Folder folder;
    const std::string done = (folder / "done").string();
    const JobEnd end =
        mpi_run(GetParam(), 2, "dies", GetParam(), folder, 100,
                {"timeout -k 5 90 sh -c 'until [ -e " + done + " ]; do ", "; done'"});
    EXPECT_EQ(end.status, 0) << end.output;
    EXPECT_EQ(read_text(folder / "attempt"), "4") << end.output;
    for (const std::string& said : end.said) EXPECT_EQ(said, trained);
}

}  // namespace

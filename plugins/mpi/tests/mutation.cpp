// Messages, sums and errors of ranks, by a program that starts itself under Open MPI's launcher: it
// is compiled with changed headers by tests/mutate.py (mutants.txt), and by nothing else.
// Run:  tests/mutate.py plugins/mpi/tests/mutants.txt
#include <gx/mpi/all_reduce.hpp>
#include <gx/mpi/world.hpp>

#include <sys/wait.h>  // WEXITSTATUS

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "ranks/ends.hpp"

namespace {

using namespace gx;

std::string rank_of_launcher() { return std::getenv("OMPI_COMM_WORLD_RANK"); }

void expect_that(bool holds, const std::string& what) {
    if (!holds) throw Error("WRONG: " + what);
}

/// f(rank), which has to throw an error with all of these parts.
template <class F>
void expect_error(mpi::JobOptions options, F f, const std::vector<std::string>& parts) {
    mpi::World<> world(std::move(options));
    std::string said;
    try {
        world.run([&](auto& rank) { f(rank); });
    } catch (const Error& e) {
        said = e.what();
    }
    for (const std::string& part : parts)
        expect_that(said.find(part) != said.npos, "'" + said + "' lacks '" + part + "'");
}

/// From each rank to each, itself too, on four channels that are received in another order, in
/// pieces of 1000 bytes; sends and receives are waited for together.
void messages() {
    mpi::World<> world({.piece_bytes = 1000});
    world.run([](auto& rank) {
        mpi::Transport& link = rank.transport();
        const auto byte_of = [](int from, int to, int channel, std::size_t i) {
            return std::byte(from * 101 + to * 37 + channel * 13 + int(i % 251));
        };
        for (const std::size_t bytes : {0u, 1u, 1000u, 1001u, 70'001u}) {
            std::vector<std::vector<std::byte>> buffers;
            std::vector<Request> posted;
            struct Expected {
                std::size_t buffer;
                int from, channel;
            };
            std::vector<Expected> expected;
            for (const int channel : {2, 0, 1001, 1})
                for (int r = 0; r < rank.ranks(); ++r) {
                    expected.push_back({buffers.size(), r, channel});
                    posted.push_back(link.receive(r, channel, buffers.emplace_back(bytes)));
                }
            for (const int channel : {0, 1, 1001, 2})
                for (int r = 0; r < rank.ranks(); ++r) {
                    auto& out = buffers.emplace_back(bytes);
                    for (std::size_t i = 0; i < bytes; ++i)
                        out[i] = byte_of(rank.rank(), r, channel, i);
                    posted.push_back(link.send(r, channel, out));
                }
            while (!posted.empty()) {
                const Arrival one = link.wait_any(posted);
                expect_that(one.delivery.complete(), "a message was not delivered");
                posted.erase(posted.begin() + std::ptrdiff_t(one.index));
            }
            for (const Expected& e : expected)
                for (std::size_t i = 0; i < bytes; ++i)
                    expect_that(buffers[e.buffer][i] == byte_of(e.from, rank.rank(), e.channel, i),
                                "a message has other bytes");
        }
    });
}

template <Element E>
void sum(mpi::World<>& world) {
    world.run([&](auto& rank) {
        std::vector<float> values(5000);
        for (std::size_t i = 0; i < values.size(); ++i)
            values[i] = float(rank.ranks()) * float(int(i % 7) + rank.rank());
        mpi::AllReduce<E> reducer;
        reducer.reserve(ReducePlan::whole(world.placement(), 5000));
        expect_that(reducer.all_reduce(rank.transport(), Bucket(values)).complete(), "a sum");
        for (std::size_t i = 0; i < values.size(); ++i) {
            const int ranks = rank.ranks();
            expect_that(values[i] == float(ranks * int(i % 7) + ranks * (ranks - 1) / 2),
                        "a mean is " + std::to_string(values[i]));
        }
    });
}
void sums() {
    mpi::World<> world({.piece_bytes = 2000});
    sum<fp32>(world), sum<fp16>(world), sum<bf16>(world);
}

void length(std::size_t sent, const std::string& got) {
    expect_error({},
                 [&](auto& rank) {
                     std::vector<std::byte> message(rank.rank() == 0 ? sent : 128);
                     rank.transport().working_on({"all-reduce", 7, 3});
                     if (rank.rank() > 1) return;
                     (void)rank.transport().wait(rank.rank() == 0
                                                     ? rank.transport().send(1, 4, message)
                                                     : rank.transport().receive(0, 4, message));
                 },
                 {"rank 1, in step 7, bucket 3", "of 128 bytes from rank 0 on channel 4", got});
}

/// Rank 1 receives bucket 3 where rank 0 sends another one, or says none.
void receive_bucket_3(auto& rank, int sent) {
    std::vector<std::byte> message(64);
    mpi::Transport link =
        in_operation(rank.transport(), {"all-reduce", 7, rank.rank() == 0 ? sent : 3});
    if (rank.rank() == 0) (void)link.wait(link.send(1, 0, message));
    if (rank.rank() == 1) (void)link.wait(link.receive(0, 0, message));
}
void buckets() {
    expect_error({}, [](auto& rank) { receive_bucket_3(rank, 4); },
                 {"rank 0 sends bucket 4 of step 7 where rank 1 receives bucket 3 of step 7"});
}
void no_bucket() {
    mpi::World<>().run([](auto& rank) { receive_bucket_3(rank, -1); });
}

/// Rank 2 waits for rank 0, which has returned, long before the deadline.
void left() {
    expect_error({.deadline = std::chrono::minutes(10)},
                 [](auto& rank) {
                     if (rank.rank() != 2) return;
                     float value = 0;
                     const Delivery d = rank.transport().wait(rank.transport().receive(
                         0, 0, std::as_writable_bytes(std::span(&value, 1))));
                     throw LostRank({.rank = 2, .step = 1, .operation = "waiting"}, d);
                 },
                 {"rank 0"});
}

/// Rank 1 waits for rank 0's message, which is not sent; rank 0 for one of rank 1.
void late() {
    const bool first = std::string(std::getenv("OMPI_COMM_WORLD_RANK")) == "1";
    expect_error(
        {.deadline = std::chrono::milliseconds(first ? 300 : 20'000)},
        [](auto& rank) {
            if (rank.rank() > 1) return;
            float value = 0;
            const Delivery d = rank.transport().wait(rank.transport().receive(
                1 - rank.rank(), rank.rank(), std::as_writable_bytes(std::span(&value, 1))));
            throw LostRank({.rank = rank.rank(), .step = 2, .operation = "waiting"}, d);
        },
        {});
}

void throws() {
    expect_error({},
                 [](auto& rank) {
                     if (rank.rank() == 1) throw Error("the disk is full");
                     float value = 0;
                     const Delivery d = rank.transport().wait(rank.transport().receive(
                         1, 0, std::as_writable_bytes(std::span(&value, 1))));
                     expect_that(d.outcome == Delivery::Outcome::cancelled, "no cancel");
                     throw LostRank({.rank = rank.rank(), .step = 2, .operation = "waiting"}, d);
                 },
                 {"the disk is full"});
}

/// Ranks share their machine's cores, and are of one node.
void places() {
    mpi::World<> world;
    expect_that(world.ranks() == 3 && world.placement() == Placement{1, 3}, "the placement");
    world.run([](auto& rank) { expect_that(rank.transport().shares_memory(), "shared memory"); });
    world.run([](auto&) {});  // again
}

/// Rank 1 leaves, where the others run.
std::string leaves() {
    mpi::World<> world;
    if (world.first_local_rank() != 1) world.run([](auto&) {});
    return "returned";
}

/// A check whose ranks end in ways of their own (ranks/ends.hpp): those that return, and what the
/// job prints.
struct End {
    const char* name;
    std::string (*run)();
    std::vector<int> returning;
    const char* printed;
};
const std::vector<End> ends{
    {"exits_first", [] { return mpi_tests::exits("first"); }, {0, 2}, ""},
    {"exits_in", [] { return mpi_tests::exits("in"); }, {}, "all-reduce: rank 1 is lost"},
    {"exits_behind", [] { return mpi_tests::exits("behind"); }, {0}, ""},
    {"exits_quietly", [] { return mpi_tests::exits("quietly"); }, {}, "all-reduce: rank 1 is lost"},
    {"exits_never", [] { return mpi_tests::exits("never"); }, {0, 1, 2}, ""},
    {"dies", [] { return mpi_tests::dies_at_exit("quietly"); }, {0, 1, 2}, "gx: rank 1 (host "},
    {"threads", mpi_tests::ends_in_threads, {0, 1, 2}, ""},
    {"mixed", [] { return mpi_tests::one_ends_mpi(rank_of_launcher() == "0"); }, {0, 1, 2}, ""},
    {"finalizes", mpi_tests::finalizes, {0, 1, 2}, ""},
    {"forks", mpi_tests::forks, {0, 1, 2}, ""},
    {"forks_in_a_run", mpi_tests::forks_in_a_run, {0, 1, 2}, "a child by fork() of rank 1 ends"},
    {"leaves", leaves, {1}, "rank 1 on host "},
    {"beside", mpi_tests::throws_beside_a_world, {}, "rank 1 leaves a world by an exception"},
    {"recovers", mpi_tests::recovers, {0, 1, 2}, ""}};

struct Check {
    const char* name;
    void (*run)();
};
const Check checks[]{{"messages", messages},
                     {"sums", sums},
                     {"shorter", [] { length(64, "one of 64"); }},
                     {"longer", [] { length(200, "a longer one"); }},
                     {"buckets", buckets},
                     {"no_bucket", no_bucket},
                     {"left", left},
                     {"late", late},
                     {"throws", throws},
                     {"places", places}};

/// Writes a file where the check has passed: MPI's launcher has another status where ranks end
/// after an error, without MPI_Finalize.
int as_rank(const std::string& name, const std::string& folder) {
    const std::string file = folder + "/" + name + rank_of_launcher();
    try {
        for (const Check& check : checks)
            if (check.name == name) check.run(), std::ofstream(file) << "passed";
        for (const End& end : ends)
            if (end.name == name) std::ofstream(file) << end.run();
        return 0;
    } catch (const std::exception& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
}

/// Runs a check as three ranks. Returns whether it ended, those in `ranks` passed, and it printed
/// that.
bool passes(const std::string& self, const std::string& folder, const std::string& name,
            const std::vector<int>& ranks, const std::string& printed) {
    const std::string output = folder + "/output";
    const int status = std::system(
        ("timeout -k 5 20 mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to none -n 3 " +
         self + " " + name + " " + folder + " < /dev/null > " + output + " 2>&1")
            .c_str());
    std::ifstream in(output);
    const std::string text(std::istreambuf_iterator<char>(in), {});
    bool good = WIFEXITED(status) && WEXITSTATUS(status) != 124 && text.find(printed) != text.npos;
    for (const int r : ranks)
        good = good && std::filesystem::exists(folder + "/" + name + std::to_string(r));
    if (!good) std::printf("%s fails:\n%s\n", name.c_str(), text.c_str());
    return good;
}

}  // namespace

int main(int count, char** arguments) {
    if (std::getenv("OMPI_COMM_WORLD_RANK") != nullptr)
        return count == 3 ? as_rank(arguments[1], arguments[2]) : 2;
    char folder[] = "/tmp/gx_mutation_XXXXXX";
    if (::mkdtemp(folder) == nullptr) return 2;
    const std::string self = std::filesystem::read_symlink("/proc/self/exe");
    bool good = true;
    for (const Check& check : checks)
        good = good && passes(self, folder, check.name, {0, 1, 2}, "");
    for (const End& end : ends)
        good = good && passes(self, folder, end.name, end.returning, end.printed);
    std::filesystem::remove_all(folder);
    return good ? 0 : 1;
}

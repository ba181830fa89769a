// Kills a random rank at a random point of training: every survivor names it, and nothing is left.
// GX_KILLS=100 GX_SEED=1 repeats more kills, from another seed; the default is 20.
#include <gx/testing/processes.hpp>

#include <signal.h>    // kill
#include <sys/wait.h>  // waitpid
#include <unistd.h>    // fork, getpid, _exit

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>  // getenv
#include <random>   // the rank, the point
#include <cstdio>   // sscanf

#include <gx/reducer/double_buffered.hpp>  // DoubleBuffered
#include <gx/reducer/ring.hpp>             // Ring
#include <gx/trainer/trainer.hpp>          // Trainer

#include <testing/processes_run.hpp>  // Shared, WithProcesses
#include <trainer/small.hpp>          // images

namespace {

using namespace testing_support;
constexpr std::size_t ranks = 4;

/// What the ranks of one run tell the test.
struct Board {
    std::array<std::atomic<pid_t>, ranks> pid;
    std::array<std::atomic<int>, ranks> messages;  ///< posted by the rank
    std::array<std::atomic<int>, ranks> named;     ///< 1 + the rank that its LostRank names
    std::atomic<int> by_root;                      ///< 1 + the rank that run()'s error names
    std::atomic<int> descriptors_left;
};

/// Counts messages, so that a point of training can be waited for.
class CountingLink : public gx::TransportOver<gx::coordination::MeshEndpoint> {
public:
    CountingLink(gx::coordination::MeshEndpoint& link, std::atomic<int>& count)
        : TransportOver(link), count_(count) {}
    gx::Request send(int to, int channel, std::span<const std::byte> message) {
        ++count_;
        return under().send(to, channel, message);
    }

private:
    std::atomic<int>& count_;
};

using Inner = gx::testing::ProcessWorld<gx::reference::Device>;
struct WatchedRank {
    using Device = gx::reference::Device;
    Inner::Rank& inner;
    CountingLink link;
    [[nodiscard]] int rank() const { return inner.rank(); }
    [[nodiscard]] int ranks() const { return inner.ranks(); }
    [[nodiscard]] CountingLink& transport() { return link; }
    [[nodiscard]] auto& stream() { return inner.stream(); }
    [[nodiscard]] gx::Nanoseconds now() const { return inner.now(); }
    [[nodiscard]] auto make_device(const gx::Graph& graph, gx::DeviceOptions options) {
        return inner.make_device(graph, options);
    }
};
struct WatchedWorld {
    using Rank = WatchedRank;
    Inner inner;
    Board& board;
    [[nodiscard]] int ranks() const { return inner.ranks(); }
    [[nodiscard]] gx::Placement placement() const { return inner.placement(); }
    void run(gx::FunctionRef<void(Rank&)> f) {
        inner.run([&](auto& rank) {
            const auto r = static_cast<std::size_t>(rank.rank());
            board.pid[r] = getpid();
            Rank watched{rank, {rank.transport(), board.messages[r]}};
            try {
                f(watched);
            } catch (const gx::LostRank& e) {
                board.named[r] = 1 + e.lost();
                throw;
            }
        });
    }
};

/// A root process: trains without end until a rank is killed.
template <class R>
[[noreturn]] void train_for_ever(Board& board) {
    const int before = open_descriptors();
    try {
        WatchedWorld world{Inner({.placement = {int(ranks), 1}}), board};
        (void)gx::Trainer<Net, R, gx::Constant>(
            {.batch = 2, .epochs = 1'000'000, .evaluate = false})
            .train(world, images());
    } catch (const std::exception& e) {
        int rank = -1;
        if (std::sscanf(e.what(), "rank %d was killed by signal 9", &rank) == 1)
            board.by_root = 1 + rank;
    }
    board.descriptors_left = open_descriptors() - before;
    const bool no_child = waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD;
    ::_exit(no_child ? 0 : 1);
}

/// Expects that every survivor of a kill names the victim and that nothing is left.
template <class R>
void kill_one(std::mt19937_64& random) {
    const Shared<Board> board;
    const std::size_t victim = random() % ranks;
    const int point = 1 + int(random() % 2'000);  // from the first message on its pid is known
    const pid_t root = fork();
    if (root == 0) train_for_ever<R>(*board);
    while (board->messages[victim] < point) ASSERT_EQ(waitpid(root, nullptr, WNOHANG), 0);
    ASSERT_EQ(kill(board->pid[victim], SIGKILL), 0);
    int status = 0, of_root = -1;
    for (pid_t p = 0; (p = waitpid(-1, &status, 0)) > 0;)
        if (p == root) of_root = status;
    EXPECT_EQ(errno, ECHILD) << "every process below this one has ended";
    for (std::size_t r = 0; r < ranks; ++r)
        EXPECT_EQ(board->named[r], r == victim ? 0 : 1 + int(victim)) << "rank " << r;
    if (victim == 0) {
        EXPECT_TRUE(WIFSIGNALED(of_root));
        return;
    }
    EXPECT_TRUE(WIFEXITED(of_root) && WEXITSTATUS(of_root) == 0);
    EXPECT_EQ(board->by_root, 1 + int(victim));
    EXPECT_EQ(board->descriptors_left, 0);
}

int number_from(const char* variable, int otherwise) {
    const char* text = std::getenv(variable);
    return text ? std::atoi(text) : otherwise;
}

using KilledProcess = WithProcesses;
TEST_F(KilledProcess, IsNamedByEverySurvivor) {
    adopt_orphans();  // where the root is killed
    const int kills = number_from("GX_KILLS", 20), seed = number_from("GX_SEED", 1);
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    for (int i = 0; i < kills && !HasFailure(); ++i) {
        SCOPED_TRACE("kill " + std::to_string(i) + " of GX_SEED=" + std::to_string(seed));
        if (i % 2 == 0) kill_one<gx::Ring<gx::fp32>>(random);
        else kill_one<gx::DoubleBuffered<gx::Ring<gx::fp32>>>(random);
    }
}

}  // namespace

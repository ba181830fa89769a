#include "peer.hpp"  // first, so the header is seen to stand alone

#include <sys/prctl.h>  // PR_SET_CHILD_SUBREAPER

#include <string>  // lines
#include <vector>  // numbers

#include <gtest/gtest.h>

namespace {

using gx::bench::Peer;

TEST(Peer, ReturnsTheNumbersOfEachTurn) {
    Peer peer({"/bin/cat"}, 1);
    ASSERT_TRUE(peer.there());
    EXPECT_EQ(peer.expect("1.5 2.5", 2), (std::vector{1.5, 2.5}));
    EXPECT_EQ(peer.ask("3", 1), std::vector{3.0});
}

TEST(Peer, IsNotThereWithoutItsProgram) { EXPECT_FALSE(Peer({"/no/such/program"}, 1).there()); }

// A stopped process receives no hangup where the session has no terminal.
TEST(Peer, EndsWithABenchmarkThatIsKilledBetweenTurns) {
    ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0) << "its peer becomes this process's child";
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    const pid_t benchmark = fork();
    if (benchmark == 0) {
        Peer peer({"/bin/cat"}, 1);
        if (!peer.there()) _exit(1);
        (void)peer.ask("1", 1);
        const pid_t child = peer.process();
        (void)!write(ends[1], &child, sizeof(child));
        raise(SIGKILL);
    }
    close(ends[1]);  // so that the end of the benchmark ends the read
    pid_t peer = 0;
    ASSERT_EQ(read(ends[0], &peer, sizeof(peer)), ssize_t{sizeof(peer)});
    ASSERT_EQ(waitpid(benchmark, nullptr, 0), benchmark);
    int status = 0;
    pid_t ended = 0;
    for (int tenths = 0; tenths < 100 && ended == 0; ++tenths) {
        ended = waitpid(peer, &status, WNOHANG);
        if (ended == 0) usleep(100'000);
    }
    if (ended == 0) kill(peer, SIGKILL), waitpid(peer, nullptr, 0);
    EXPECT_EQ(ended, peer) << "it was still there after 10 s";
    EXPECT_TRUE(WIFSIGNALED(status));
    close(ends[0]);
    prctl(PR_SET_CHILD_SUBREAPER, 0);
}

}  // namespace

#include <gx/trainer/monitor/show_progress.hpp>

#include <pty.h>     // openpty
#include <unistd.h>  // dup2

#include <string>  // what was written

#include <gtest/gtest.h>

#include <gx/reducer/ring.hpp>     // Ring
#include <gx/trainer/trainer.hpp>  // Trainer
#include <trainer/small.hpp>       // images, threads

namespace {

using namespace testing_support;
using Plain = gx::Trainer<Net, gx::Ring<gx::fp32>, gx::Constant>;

/// What `f` writes to stderr where that is a terminal, of the kind that TERM names.
template <class F>
std::string on_a_terminal(F f, const char* kind = "xterm") {
    ::setenv("TERM", kind, 1);
    int master = -1, slave = -1;
    EXPECT_EQ(::openpty(&master, &slave, nullptr, nullptr, nullptr), 0);
    const int kept = ::dup(STDERR_FILENO);
    ::dup2(slave, STDERR_FILENO);
    ::close(slave);
    f();
    ::dup2(kept, STDERR_FILENO);  // the last end of the terminal: a read finds its end
    ::close(kept);
    std::string text;
    char part[4096];
    for (;;) {
        const ssize_t got = ::read(master, part, sizeof part);
        if (got <= 0) break;
        text.append(part, std::size_t(got));
    }
    ::close(master);
    return text;
}
std::string shown_by(const Plain::Options& o, const char* kind = "xterm") {
    return on_a_terminal(
        [&] {
            auto world = threads(2);
            (void)Plain(o).train(world, images(16, 0));
        },
        kind);
}

TEST(ShowProgress, IsTheDefaultOnATerminal) {
    const std::string text = shown_by({.batch = 4, .evaluate = false});
    EXPECT_TRUE(holds(text, "training [", "100 %  2/2 steps", "epoch 1/1  loss ")) << text;
}
TEST(ShowProgress, DrawsNoBarWhereALineCannotBeWrittenOver) {
    EXPECT_EQ(shown_by({.batch = 4, .evaluate = false}, "dumb"), "");
    std::string text = on_a_terminal(
        [] {
            gx::ShowProgress lines;  // that are asked for
            auto world = threads(2);
            (void)Plain({.batch = 4, .evaluate = false, .observers = {&lines}})
                .train(world, images(16, 0));
        },
        "dumb");
    EXPECT_EQ(text.find('\x1b'), text.npos);
    EXPECT_TRUE(holds(text, "training  50 %  1/2 steps", "training 100 %  2/2 steps"));
}
TEST(ShowProgress, IsNotShownWhereAnOptionOrAnObserverSaysSo) {
    EXPECT_EQ(shown_by({.batch = 4, .evaluate = false, .progress = false}), "");
    gx::ShowProgress lines(gx::Progress::Style::lines);
    const std::string text = shown_by({.batch = 4, .evaluate = false, .observers = {&lines}});
    EXPECT_EQ(text.find('\x1b'), text.npos) << "no bar beside it";
    EXPECT_TRUE(holds(text, "training  50 %  1/2 steps", "training 100 %  2/2 steps"));
}
TEST(ShowProgress, IsNotTheDefaultElsewhere) {
    ::testing::internal::CaptureStderr();  // a file
    auto world = threads(2);
    (void)Plain({.batch = 4, .evaluate = false}).train(world, images(16, 0));
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

}  // namespace

#include <gx/trainer/progress.hpp>

#include <fcntl.h>      // O_RDWR
#include <sys/ioctl.h>  // the width of a terminal
#include <unistd.h>     // read

#include <cstdio>   // tmpfile
#include <cstdlib>  // free, posix_openpt
#include <string>   // what was written
#include <vector>   // lines

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

using gx::Progress;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::SizeIs;
using ::testing::StartsWith;

/// What `f` writes.
template <class F>
std::string written(F f) {
    char* data = nullptr;
    std::size_t size = 0;
    std::FILE* out = ::open_memstream(&data, &size);
    f(out);
    std::fclose(out);
    std::string text(data, size);
    std::free(data);
    return text;
}

// ---- Cases worked by hand -----------------------------------------------------------

TEST(Progress, LineTellsShareRateAndTimeLeft) {
    const Progress p("training", 400, "steps", Progress::Style::lines);
    EXPECT_EQ(p.line(100, 10, "loss 1.5"),
              "training  25 %  100/400 steps  10 steps/s  0:30 left  loss 1.5");
    EXPECT_EQ(p.line(40, 10, ""), "training  10 %  40/400 steps  4 steps/s  1:30 left  ");
    EXPECT_EQ(p.line(400, 10, "x"), "training 100 %  400/400 steps  40 steps/s  0:00 left  x");
}
TEST(Progress, AResumedRunIsAsFastAsItsOwnSteps) {
    Progress p("training", 400, "steps", Progress::Style::lines);
    p.resume_from(200);  // 100 steps in 10 s, 100 to go
    EXPECT_EQ(p.line(300, 10, ""), "training  75 %  300/400 steps  10 steps/s  0:10 left  ");
}

TEST(Progress, BarFillsUp) {
    const Progress p("a", 24, "images", Progress::Style::bar);
    EXPECT_EQ(p.line(0, 0, "w"),
              "a [>                       ]   0 %  0/24 images  0 images/s  0:00 left  w");
    EXPECT_EQ(p.line(6, 2, "w"),
              "a [======>                 ]  25 %  6/24 images  3 images/s  0:06 left  w");
    EXPECT_EQ(p.line(24, 2, "w"),
              "a [========================] 100 %  24/24 images  12 images/s  0:00 left  w");
}
TEST(Progress, SlowRunsHaveARate) {
    const Progress p("training", 1000, "steps", Progress::Style::lines);
    EXPECT_EQ(p.line(6, 11, ""), "training   1 %  6/1000 steps  0.545 steps/s  30:22 left  ");
    EXPECT_EQ(p.line(10, 6.4, ""), "training   1 %  10/1000 steps  1.56 steps/s  10:33 left  ");
    EXPECT_EQ(p.line(10, 110, ""), "training   1 %  10/1000 steps  0.0909 steps/s  3:01:30 left  ");
    EXPECT_EQ(p.line(999, 0.9, ""), "training 100 %  999/1000 steps  1110 steps/s  0:00 left  ");
}
TEST(Progress, FitsIntoTheTerminal) {
    const Progress p("training", 469, "steps", Progress::Style::bar);
    const std::string words = "epoch 1/10  loss 2.303";
    const auto at = [&](std::size_t columns) { return p.line(235, 60, words, columns); };
    EXPECT_EQ(at(200),
              "training [============>           ]  50 %  235/469 steps  3.92 steps/s  0:59 left  "
              "epoch 1/10  loss 2.303");
    EXPECT_EQ(at(200), at(std::string::npos));
    EXPECT_EQ(at(79),  // the bar gives way
              "training  50 %  235/469 steps  3.92 steps/s  0:59 left  epoch 1/10  loss 2.303");
    EXPECT_EQ(at(90),
              "training [====>    ]  50 %  235/469 steps  3.92 steps/s  0:59 left  "
              "epoch 1/10  loss 2.303");
    EXPECT_EQ(at(70),  // then the rate
              "training  50 %  235/469 steps  0:59 left  epoch 1/10  loss 2.303");
    EXPECT_EQ(at(40), "training  50 %  235/469 steps  0:59 left");
    for (std::size_t columns = 0; columns < 120; ++columns) EXPECT_LE(at(columns).size(), columns);
}
TEST(Progress, CountsCharactersAndNotBytes) {
    const Progress p("übt", 10, "Schritte", Progress::Style::bar);
    EXPECT_EQ(p.line(5, 1, "für", 2), "üb");
    EXPECT_EQ(p.line(5, 1, "für", 58),
              "übt [>]  50 %  5/10 Schritte  5 Schritte/s  0:01 left  für");
}
TEST(Progress, NothingToDoAndEndlessWaits) {
    EXPECT_EQ(Progress("a", 0, "steps", Progress::Style::lines).line(0, 1, ""),
              "a 100 %  0/0 steps  0 steps/s  0:00 left  ");
    const Progress slow("a", 1'000'000'000'000, "steps", Progress::Style::lines);
    EXPECT_EQ(slow.line(1, 1e9, ""),
              "a   0 %  1/1000000000000 steps  1e-09 steps/s  277777:46:40 left  ");
}

// ---- What reaches a file ------------------------------------------------------------

TEST(Progress, PlainLinesComeEveryTenth) {
    const std::string text = written([](std::FILE* out) {
        Progress p("training", 1000, "steps", Progress::style_of(out), out);
        for (int i = 1; i <= 1000; ++i) p.update(i, "words");
    });
    int lines = 0;
    for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; ++at) ++lines;
    EXPECT_EQ(lines, 10);
    EXPECT_EQ(text.find('\r'), std::string::npos);
    EXPECT_EQ(text.rfind("training  10 %  100/1000 steps", 0), 0u);
    EXPECT_NE(text.find("training 100 %  1000/1000 steps"), std::string::npos);
}
TEST(Progress, TheBarsLastStateIsAlwaysDrawn) {
    const std::string text = written([](std::FILE* out) {
        Progress p("training", 50, "steps", Progress::Style::bar, out);
        for (int i = 1; i <= 50; ++i) p.update(i, "words");
    });
    EXPECT_EQ(text.rfind("\r\x1b[K", 0), 0u);
    EXPECT_NE(text.find("100 %  50/50 steps"), std::string::npos);
    EXPECT_EQ(text.back(), '\n');
}
/// What a terminal of so many columns is told between redraws.
std::vector<std::string> drawn(unsigned short columns) {
    const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
    if (terminal < 0 || ::grantpt(terminal) != 0 || ::unlockpt(terminal) != 0) return {};
    std::FILE* const out = std::fopen(::ptsname(terminal), "w");
    if (out == nullptr) return {};
    winsize size{};
    size.ws_col = columns;
    ::ioctl(terminal, TIOCSWINSZ, &size);
    Progress p("training", 1, "steps", Progress::Style::bar, out);
    p.update(1, "epoch 1/10  loss 2.303");
    char text[512];
    const auto count = ::read(terminal, text, sizeof text);
    std::fclose(out);
    ::close(terminal);
    std::vector<std::string> lines(1);
    for (const char c : std::string_view(text, count > 0 ? std::size_t(count) : 0))
        if (c == '\r') lines.emplace_back();
        else lines.back() += c;
    return lines;
}
TEST(Progress, IsAsWideAsItsTerminal) {
    EXPECT_THAT(drawn(40), Contains("\x1b[Ktraining 100 %  1/1 steps  0:00 left  e"));
    EXPECT_THAT(drawn(200), Contains(StartsWith("\x1b[Ktraining [========================] 100")));
    EXPECT_THAT(drawn(0), Contains(AllOf(HasSubstr("loss 2.303"), SizeIs(Le(3 + 79)))))
        << "of unknown width";
}
TEST(Progress, SilentWritesNothing) {
    EXPECT_EQ(written([](std::FILE* out) {
                  Progress p("training", 2, "steps", Progress::Style::silent, out);
                  p.update(2, "words");
              }),
              "");
}

}  // namespace

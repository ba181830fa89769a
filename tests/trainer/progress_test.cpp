#include <gx/trainer/progress.hpp>

#include <cstdio>   // tmpfile
#include <cstdlib>  // free
#include <string>   // what was written

#include <gtest/gtest.h>

namespace {

using gx::Progress;

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
TEST(Progress, NothingToDoAndEndlessWaits) {
    EXPECT_EQ(Progress("a", 0, "steps", Progress::Style::lines).line(0, 1, ""),
              "a 100 %  0/0 steps  0 steps/s  0:00 left  ");
    const Progress slow("a", 1'000'000'000'000, "steps", Progress::Style::lines);
    EXPECT_EQ(slow.line(1, 1e9, ""),
              "a   0 %  1/1000000000000 steps  0 steps/s  16666666:40 left  ");
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
TEST(Progress, SilentWritesNothing) {
    EXPECT_EQ(written([](std::FILE* out) {
                  Progress p("training", 2, "steps", Progress::Style::silent, out);
                  p.update(2, "words");
              }),
              "");
}

}  // namespace

// runners: those who take turns: gx in this process, its peers and the floor in their own.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gx/core/error.hpp>                // Error
#include <gx/image/codec/crop_decoder.hpp>  // CropDecoder

#include "../step/clock.hpp"  // median, now
#include "photograph.hpp"     // Crop, output_size

namespace gx::bench {

class Runner {
public:
    explicit Runner(std::string name) : name_(std::move(name)) {}
    Runner(const Runner&) = delete;
    Runner& operator=(const Runner&) = delete;
    virtual ~Runner() = default;
    /// Processor seconds of all crops, all on one core; negative: it has ended.
    virtual double round() = 0;
    /// Where it runs; -1: in this process.
    [[nodiscard]] virtual pid_t process() const { return -1; }

    [[nodiscard]] const std::string& name() const { return name_; }
    [[nodiscard]] bool there() const { return !microseconds.empty(); }
    std::vector<double> microseconds{};  ///< of an image, a round each

protected:
    std::string name_;
};

/// `clock`: of this process or of this thread, which neighbours do not lengthen by waiting.
inline double processor_seconds(clockid_t clock = CLOCK_PROCESS_CPUTIME_ID) {
    timespec t{};
    clock_gettime(clock, &t);
    return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

class Gx : public Runner {
public:
    Gx(std::string name, const Bytes& file, const std::vector<Crop>& crops, ResizeMode mode)
        : Runner(std::move(name)), file_(file), crops_(crops), options_{.mode = mode} {}
    double round() override {
        const double begin = processor_seconds();
        for (const Crop& c : crops_) show(c, out_.data());
        return processor_seconds() - begin;
    }
    void show(const Crop& c, std::uint8_t* out) {
        decoder_.open(file_, "benchmark.jpg");
        options_.mirrored = c.mirrored;
        decoder_.resize(c.region, output_size, options_, out);
    }

private:
    const Bytes& file_;
    const std::vector<Crop>& crops_;
    CropOptions options_;
    CropDecoder decoder_;
    Bytes out_ = Bytes(std::size_t(3 * output_size.pixels()));
};

/// A program that runs a round for each line of its input.
class Program : public Runner {
public:
    /// `named`: the program's first line is its name, and is waited for.
    Program(std::string name, std::vector<std::string> command, bool named = false)
        : Runner(std::move(name)) {
        std::signal(SIGPIPE, SIG_IGN);  // a program that is not there is left out
        int input[2], output[2];
        if (pipe2(input, O_CLOEXEC) != 0 || pipe2(output, O_CLOEXEC) != 0)
            throw Error("no pipe for a peer");
        child_ = fork();
        if (child_ == 0) {
            dup2(input[0], 0), dup2(output[1], 1);
            std::vector<char*> words;
            for (std::string& word : command) words.push_back(word.data());
            words.push_back(nullptr);
            execvp(words[0], words.data());
            _exit(127);
        }
        close(input[0]), close(output[1]);
        to_ = fdopen(input[1], "w");
        from_ = fdopen(output[0], "r");
        if (!named) return;
        const std::string line = read_line();
        if (!line.empty()) name_ = line;
    }
    ~Program() override {
        std::fclose(to_);
        std::fclose(from_);
        waitpid(child_, nullptr, 0);
    }
    double round() override {
        std::fputs("go\n", to_);
        std::fflush(to_);
        const std::string line = read_line();
        return line.empty() ? -1 : std::strtod(line.c_str(), nullptr);
    }
    [[nodiscard]] pid_t process() const override { return child_; }

private:
    std::string read_line() {
        std::string line;
        for (int c; (c = std::fgetc(from_)) != EOF && c != '\n';) line += char(c);
        return line;
    }
    pid_t child_ = -1;
    std::FILE *to_ = nullptr, *from_ = nullptr;
};

// ---- On more cores than one ---------------------------------------------------------------------

/// Those that this process may run on.
inline std::vector<int> allowed_cores() {
    cpu_set_t set;
    CPU_ZERO(&set);
    std::vector<int> cores;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        for (int i = 0; i < CPU_SETSIZE; ++i)
            if (CPU_ISSET(static_cast<unsigned>(i), &set)) cores.push_back(i);
    return cores;
}

/// Rounds of gx, plain, in a thread bound to each of `cores`: each decodes all crops. Units:
/// microseconds; `wall` from the common start to the end of the last, over the images of all;
/// `processor` of a thread over its own images.
struct OnCores {
    std::vector<double> wall{}, processor{};

    void round(const Bytes& file, const std::vector<Crop>& crops, const std::vector<int>& cores) {
        const auto count = std::ssize(cores);
        std::vector<double> ends(cores.size()), taken(cores.size());
        double begin = 0;
        std::barrier start(count, [&]() noexcept { begin = now(); });
        {
            std::vector<std::jthread> threads;
            for (std::size_t i = 0; i < cores.size(); ++i)
                threads.emplace_back([&, i] {
                    cpu_set_t set;
                    CPU_ZERO(&set);
                    CPU_SET(static_cast<unsigned>(cores[i]), &set);
                    (void)sched_setaffinity(0, sizeof set, &set);
                    Gx gx("", file, crops, ResizeMode::plain);
                    Bytes out(std::size_t(3 * output_size.pixels()));
                    gx.show(crops.front(), out.data());  // takes memory
                    start.arrive_and_wait();
                    const double from = processor_seconds(CLOCK_THREAD_CPUTIME_ID);
                    for (const Crop& c : crops) gx.show(c, out.data());
                    taken[i] = processor_seconds(CLOCK_THREAD_CPUTIME_ID) - from;
                    ends[i] = now();
                });
        }
        const double images = double(crops.size());
        wall.push_back(1e6 * (*std::ranges::max_element(ends) - begin) / images / double(count));
        for (const double t : taken) processor.push_back(1e6 * t / images);
    }
};

}  // namespace gx::bench

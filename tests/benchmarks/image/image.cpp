// From a JPEG of 67 KB to 224 x 224 RGB, on one core: gx beside OpenCV, Pillow and torchvision.
//   gx_bench_image [--json FILE] [--rounds N] [--python PYTHON]
// All cut the same random resized crops out of the same image of 500 x 375, with 4:2:0 sampling and
// quality 90, whose spectrum is that of photographs. They take turns; medians of processor time are
// printed. What favours gx: it decodes the crop alone.
#include <fcntl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <jpeglib.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <gx/image/codec/recipe.hpp>
#include <gx/io/atomic_file.hpp>  // write_file

#include "../../../sims/support/command_line.hpp"  // run_program
#include "../machine.hpp"                          // cpu_name
#include "../step/clock.hpp"                       // median

namespace {

using gx::bench::median;
using Bytes = std::vector<std::uint8_t>;

constexpr gx::ImageSize size{500, 375}, to{224, 224};
constexpr std::size_t file_bytes = 67'000;

// ---- The image --------------------------------------------------------------------------------

/// Noise of octaves whose strength falls as 1 / frequency, as in photographs; `fine` scales those
/// of a few pixels.
Bytes photograph(double fine) {
    const auto lattice = [](int octave, int c, int x, int y) {
        return gx::Rng(octave, "photograph")
                       .at(std::uint64_t(c))
                       .uniform(std::uint64_t(y) * 4096 + std::uint64_t(x)) *
                   2.0 -
               1;
    };
    Bytes pixels(std::size_t(3 * size.pixels()));
    std::vector<double> sum(pixels.size());
    for (int octave = 1; octave <= 8; ++octave) {
        const double step = 512.0 / (1 << octave), strength = 75.0 / octave;
        const double scale = octave > 5 ? strength * fine : strength;
        for (int c = 0; c < 3; ++c)  // 0: of all channels alike
            for (int y = 0; y < size.height; ++y)
                for (int x = 0; x < size.width; ++x) {
                    const int i = int(x / step), k = int(y / step);
                    const double u = x / step - i, v = y / step - k;
                    const double value = (1 - v) * ((1 - u) * lattice(octave, c, i, k) +
                                                    u * lattice(octave, c, i + 1, k)) +
                                         v * ((1 - u) * lattice(octave, c, i, k + 1) +
                                              u * lattice(octave, c, i + 1, k + 1));
                    const std::size_t at = std::size_t(3) * (size.width * y + x);
                    for (std::size_t k2 = 0; k2 < 3; ++k2)
                        if (c == 0 || int(k2) == c)
                            sum[at + k2] += scale * value / (c == 0 ? 1 : 4);
                }
    }
    for (std::size_t i = 0; i < sum.size(); ++i)
        pixels[i] = static_cast<std::uint8_t>(std::clamp(128 + sum[i], 0.0, 255.0));
    return pixels;
}
Bytes jpeg_of(const Bytes& pixels) {
    jpeg_compress_struct info{};
    jpeg_error_mgr errors;
    info.err = jpeg_std_error(&errors);
    jpeg_create_compress(&info);
    unsigned char* memory = nullptr;
    unsigned long count = 0;
    jpeg_mem_dest(&info, &memory, &count);
    info.image_width = size.width;
    info.image_height = size.height;
    info.input_components = 3;
    info.in_color_space = JCS_RGB;
    jpeg_set_defaults(&info);
    jpeg_set_quality(&info, 90, TRUE);
    jpeg_start_compress(&info, TRUE);
    while (info.next_scanline < info.image_height) {
        auto* row = const_cast<JSAMPROW>(&pixels[std::size_t(3) * size.width * info.next_scanline]);
        jpeg_write_scanlines(&info, &row, 1);
    }
    jpeg_finish_compress(&info);
    Bytes file(memory, memory + count);
    jpeg_destroy_compress(&info);
    std::free(memory);
    return file;
}
/// The strength of texture at which the file has `file_bytes`.
Bytes make_file() {
    double least = 0, most = 4;
    Bytes file;
    for (int i = 0; i < 9; ++i) {
        const double middle = (least + most) / 2;
        file = jpeg_of(photograph(middle));
        (file.size() < file_bytes ? least : most) = middle;
    }
    return file;
}

// ---- Those who take turns ---------------------------------------------------------------------

struct Crop {
    gx::ImageRegion region;
    bool mirrored;
};

class Runner {
public:
    explicit Runner(std::string name) : name_(std::move(name)) {}
    Runner(const Runner&) = delete;
    Runner& operator=(const Runner&) = delete;
    virtual ~Runner() = default;
    /// Processor seconds of all crops, all on one core; negative: it has ended.
    virtual double round() = 0;

    const std::string& name() const { return name_; }
    std::vector<double> microseconds{};  // of an image

protected:
    std::string name_;
};

/// Of this process, which neighbours do not lengthen.
double processor_seconds() {
    timespec t{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

class Gx : public Runner {
public:
    Gx(std::string name, const Bytes& file, const std::vector<Crop>& crops, gx::CropOptions options)
        : Runner(std::move(name)), file_(file), crops_(crops), options_(options) {}
    double round() override {
        const double begin = processor_seconds();
        for (const Crop& c : crops_) {
            decoder_.open(file_, "benchmark.jpg");
            options_.mirrored = c.mirrored;
            decoder_.resize(c.region, to, options_, out_.data());
        }
        return processor_seconds() - begin;
    }

private:
    const Bytes& file_;
    const std::vector<Crop>& crops_;
    gx::CropOptions options_;
    gx::CropDecoder decoder_;
    Bytes out_ = Bytes(std::size_t(3 * to.pixels()));
};

/// A program that runs a round for each line of its input.
class Peer : public Runner {
public:
    Peer(std::string name, const std::vector<std::string>& command, bool names_itself = false)
        : Runner(std::move(name)) {
        std::signal(SIGPIPE, SIG_IGN);  // a peer that is not there is left out
        int input[2], output[2];
        if (pipe2(input, O_CLOEXEC) != 0 || pipe2(output, O_CLOEXEC) != 0)
            throw gx::Error("no pipe for a peer");
        child_ = fork();
        if (child_ == 0) {
            dup2(input[0], 0), dup2(output[1], 1);

            std::vector<char*> words;
            for (const std::string& word : command)
                words.push_back(const_cast<char*>(word.c_str()));
            words.push_back(nullptr);
            execvp(words[0], words.data());
            _exit(127);
        }
        close(input[0]), close(output[1]);
        to_ = fdopen(input[1], "w");
        from_ = fdopen(output[0], "r");
        if (names_itself) {
            const std::string line = read_line();
            if (!line.empty()) name_ = line;
        }
    }
    ~Peer() override {
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

private:
    std::string read_line() {
        std::string line;
        for (int c; (c = std::fgetc(from_)) != EOF && c != '\n';) line += char(c);
        return line;
    }
    pid_t child_ = -1;
    std::FILE *to_ = nullptr, *from_ = nullptr;
};

// ---- The table --------------------------------------------------------------------------------

struct Options {
    std::string json, python = "python3";
    int rounds = 9;
};

std::vector<Crop> draw_crops() {
    std::vector<Crop> crops;
    for (std::uint64_t sample = 0; sample < 100; ++sample)
        crops.push_back({gx::RandomResizedCrop{}(
                             size, gx::SampleDraws(1, gx::RandomResizedCrop::stream, 0, sample)),
                         gx::mirrored(1, 0, sample)});
    return crops;
}

void measure(const Options& o) {
    gx::expect_outputs({{"--json", o.json}});
    const Bytes file = make_file();
    const std::vector<Crop> crops = draw_crops();
    const auto folder =
        std::filesystem::temp_directory_path() / fmt::format("gx_bench_{}", getpid());
    std::filesystem::create_directory(folder);
    const std::string jpeg = folder / "image.jpg", list = folder / "crops.txt";
    std::ofstream(jpeg, std::ios::binary)
        .write(reinterpret_cast<const char*>(file.data()), std::ptrdiff_t(file.size()));
    std::ofstream lines(list);
    for (const auto& [r, mirrored] : crops)
        lines << fmt::format("{} {} {} {} {:d}\n", r.left, r.top, r.width, r.height, mirrored);
    lines.close();

    std::vector<std::unique_ptr<Runner>> runners;
    using gx::ResizeMode;
    runners.push_back(
        std::make_unique<Gx>("gx, plain", file, crops, gx::CropOptions{.mode = ResizeMode::plain}));
    runners.push_back(std::make_unique<Gx>("gx, antialiased", file, crops, gx::CropOptions{}));
    const auto opencv =
        std::filesystem::read_symlink("/proc/self/exe").parent_path() / "gx_image_opencv";
    if (std::filesystem::exists(opencv))
        for (const auto& [way, name] :
             {std::pair{"exif", "OpenCV"}, std::pair{"imdecode", "OpenCV, no look for EXIF"},
              std::pair{"turbo", "libjpeg-turbo whole, OpenCV's resize"}})
            runners.push_back(std::make_unique<Peer>(
                name, std::vector<std::string>{opencv.string(), jpeg, list, way}));
    runners.push_back(std::make_unique<Peer>(
        "Pillow", std::vector<std::string>{o.python, GX_PILLOW_PEER, jpeg, list}, true));

    for (int round = -1; round < o.rounds; ++round)  // the first one warms up
        for (auto& runner : runners) {
            const double seconds = runner->round();
            if (round >= 0 && seconds > 0)
                runner->microseconds.push_back(1e6 * seconds / double(crops.size()));
        }
    fmt::print("A JPEG of {} bytes, {} x {}, to {} x {} RGB, one core of {}\n", file.size(),
               size.width, size.height, to.width, to.height, gx::bench::cpu_name());
    nlohmann::json rows = nlohmann::json::array();
    const double plain = median(runners[0]->microseconds);
    const double antialiased = median(runners[1]->microseconds);
    for (const auto& runner : runners) {
        if (runner->microseconds.empty()) {
            fmt::print("  {:40} not found\n", runner->name());
            continue;
        }
        const double x = median(runner->microseconds);
        fmt::print("  {:40} {:7.0f} us  {:5.0f} images/s  {:4.2f} x plain  {:4.2f} x antialiased\n",
                   runner->name(), x, 1e6 / x, x / plain, x / antialiased);
        rows.push_back({{"name", runner->name()},
                        {"microseconds", x},
                        {"images_per_second", 1e6 / x},
                        {"times_plain", x / plain},
                        {"times_antialiased", x / antialiased}});
    }
    runners.clear();
    std::filesystem::remove_all(folder);
    if (o.json.empty()) return;
    const nlohmann::json all{{"benchmark", "image"},
                             {"cpu", gx::bench::cpu_name()},
                             {"file_bytes", file.size()},
                             {"rows", rows}};
    gx::write_file(o.json, all.dump(2) + "\n");
}

}  // namespace

int main(int argc, char** argv) {
    Options o;
    CLI::App app("From a JPEG of 67 KB to 224 x 224 RGB, on one core, beside OpenCV and Pillow.",
                 "gx bench image");
    app.add_option("--json", o.json, "also write what was measured there");
    app.add_option("--rounds", o.rounds, "rounds of 100 crops")->check(gx::number_in(1, 1000));
    app.add_option("--python", o.python, "python3 with Pillow, and maybe torchvision");
    return gx::run_program(app, argc, argv, [&] { measure(o); });
}

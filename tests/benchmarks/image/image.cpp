// From a JPEG of 67 KB to 224 x 224 RGB: gx beside OpenCV, Pillow, torchvision and the floor.
// Run:     ./gx bench image [--json FILE] [--rounds N] [--python PYTHON | --torchvision]
// Prints:  a line for each of them, and each goal: met, MISSED, or why it is not judged
//
// All cut the same random resized crops out of the same image of 500 x 375, with 4:2:0 sampling and
// quality 90, whose spectrum is that of photographs. On one core they take turns; times are
// processor time, which neighbours lengthen least, medians of rounds; ratios are medians of the
// rounds' ratios. Of several ways of a peer the quickest has the goal. The floor (floor/image.cpp)
// is libjpeg-turbo and one loop; that it shows the same images is checked. Then gx on two cores
// beside gx on one, by the wall's time, which is judged where others leave the machine alone.
// What favours either side is printed.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <gx/io/atomic_file.hpp>  // write_file

#include "../../../sims/support/command_line.hpp"  // run_program
#include "../machine.hpp"                          // cpu_name
#include "../step/clock.hpp"                       // median, OtherLoad
#include "../verdict.hpp"                          // verdict_of, why_not_judged
#include "photograph.hpp"                          // make_file, draw_crops
#include "runners.hpp"                             // Gx, Program, OnCores

namespace {

using namespace gx::bench;
using Json = nlohmann::json;

constexpr double quiet_pct = 3;  // of the cores' time that others may have

struct Settings {
    std::filesystem::path json{};
    std::string python = "python3";
    bool torchvision = false;
    int rounds = 9;
};

/// What differs beside the code that is measured: the side it helps, and what it is.
constexpr std::pair<const char*, const char*> favours[] = {
    {"gx",
     "it decodes the crop alone, of 8 to 100 % of the image; the peers have no such call, and "
     "decode the whole image"},
    {"gx", "its decoder and memory are kept from image to image; Pillow makes objects anew"},
    {"OpenCV", "its way ends with 8-bit RGB in memory, without a copy into a batch"},
    {"torchvision", "8-bit tensors: what its recipes add, floats and normalisation, is left out"},
    {"torchvision", "PyPI's packages bring a libjpeg-turbo of their own, newer than Debian's"},
    {"all alike", "the file is in memory, and one file serves all crops, so that it is in a cache"},
    {"the floor", "compiled for this processor; gx's loops are of AVX2, chosen when it runs"},
    {"the floor",
     "no checks for damage, no EXIF, no greyscale, CMYK, progressive or PNG files, one output "
     "size"}};

// ---- Those that are measured --------------------------------------------------------------------

/// The image and the crops, as files for other programs.
class Folder {
public:
    Folder(const Bytes& file, const std::vector<Crop>& crops) {
        std::filesystem::create_directory(path_);
        std::ofstream(jpeg(), std::ios::binary)
            .write(reinterpret_cast<const char*>(file.data()), std::ptrdiff_t(file.size()));
        std::ofstream lines(list());
        for (const auto& [r, mirrored] : crops)
            lines << fmt::format("{} {} {} {} {:d}\n", r.left, r.top, r.width, r.height, mirrored);
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    ~Folder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    [[nodiscard]] std::string jpeg() const { return path_ / "image.jpg"; }
    [[nodiscard]] std::string list() const { return path_ / "crops.txt"; }
    [[nodiscard]] std::string pixels() const { return path_ / "pixels"; }

private:
    std::filesystem::path path_ =
        std::filesystem::temp_directory_path() / fmt::format("gx_bench_{}", getpid());
};

struct Runners {
    std::unique_ptr<Gx> plain{}, antialiased{};
    std::unique_ptr<Runner> floor{};
    std::vector<std::unique_ptr<Runner>> opencv{}, others{}, torchvision{};

    [[nodiscard]] std::vector<Runner*> all() const {
        std::vector<Runner*> all{plain.get(), antialiased.get()};
        if (floor) all.push_back(floor.get());
        for (const auto* some : {&opencv, &others, &torchvision})
            for (const auto& runner : *some) all.push_back(runner.get());
        return all;
    }
};

Runners start(const Settings& s, const Bytes& file, const std::vector<Crop>& crops,
              const Folder& folder) {
    using gx::ResizeMode;
    Runners all{.plain = std::make_unique<Gx>("gx, plain", file, crops, ResizeMode::plain),
                .antialiased =
                    std::make_unique<Gx>("gx, antialiased", file, crops, ResizeMode::antialiased)};
    const std::vector<std::string> files{folder.jpeg(), folder.list()};
    const auto program = [&](std::vector<std::string> command, const std::string& way,
                             const std::string& name, bool named = false) {
        command.insert(command.end(), files.begin(), files.end());
        command.push_back(way);
        return std::make_unique<Program>(name, command, named);
    };
    const auto beside = std::filesystem::read_symlink("/proc/self/exe").parent_path();
    if (const auto floor = beside / "gx_floor_image"; std::filesystem::exists(floor))
        all.floor = program({floor}, folder.pixels(), "floor");
    if (const auto opencv = beside / "gx_image_opencv"; std::filesystem::exists(opencv)) {
        all.opencv.push_back(program({opencv}, "exif", "OpenCV"));
        all.opencv.push_back(program({opencv}, "imdecode", "OpenCV, no look for EXIF"));
        all.others.push_back(program({opencv}, "turbo", "libjpeg-turbo whole, OpenCV's resize"));
    }
    const auto python = [&](const char* way, const char* name) {
        return program({s.python, GX_PILLOW_PEER}, way, name, true);
    };
    all.others.push_back(python("pillow", "Pillow"));
    all.torchvision.push_back(python("worker", "torchvision"));
    all.torchvision.push_back(python("tensor", "torchvision, tensors"));
    return all;
}

/// The largest difference of the floor's crops, which are in `pixels`, from gx's plain ones.
/// Errors: gx::Error where they are other images.
int compare(Gx& gx, const std::vector<Crop>& crops, const std::string& pixels) {
    std::ifstream in(pixels, std::ios::binary);
    const Bytes theirs((std::istreambuf_iterator<char>(in)), {});
    const auto bytes = std::size_t(3 * output_size.pixels());
    if (theirs.size() != crops.size() * bytes)
        throw gx::Error("the floor program did not show all crops: see what it printed");
    Bytes mine(bytes);
    int most = 0;
    for (std::size_t i = 0; i < crops.size(); ++i) {
        gx.show(crops[i], mine.data());
        for (std::size_t k = 0; k < bytes; ++k)
            most = std::max(most, std::abs(int(mine[k]) - int(theirs[i * bytes + k])));
    }
    if (most > 1)
        throw gx::Error(
            fmt::format("the floor's pixels differ from gx's by up to {} of 255, so "
                        "that it does other work and is no floor",
                        most));
    return most;
}

/// Turns on one core. Units: per cent of the cores' time that others had.
double take_turns(const Runners& runners, std::size_t crops, int rounds) {
    std::vector<pid_t> children;
    for (const Runner* r : runners.all())
        if (r->process() > 0) children.push_back(r->process());
    std::optional<OtherLoad> others;
    for (int round = -1; round < rounds; ++round) {  // the first one warms up
        if (round == 0) others.emplace(children);
        for (Runner* runner : runners.all()) {
            const double seconds = runner->round();
            if (round >= 0 && seconds > 0)
                runner->microseconds.push_back(1e6 * seconds / double(crops));
        }
    }
    return others->percent();
}

// ---- Goals --------------------------------------------------------------------------------------

/// Of the rounds, how many times as long `theirs` took.
double ratio(const std::vector<double>& theirs, const std::vector<double>& mine) {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < std::min(theirs.size(), mine.size()); ++i)
        ratios.push_back(theirs[i] / mine[i]);
    return median(ratios);
}
const Runner* quickest(const std::vector<std::unique_ptr<Runner>>& some) {
    const Runner* best = nullptr;
    for (const auto& r : some)
        if (r->there() && (best == nullptr || median(r->microseconds) < median(best->microseconds)))
            best = r.get();
    return best;
}

/// A row, with all that a goal adds to it, printed. `missing`: why nothing is judged.
Json judge(const std::string& mode, int cores, double gx_us, const char* peer, double peer_us,
           std::optional<double> times, double goal, const std::string& missing, double load) {
    Json row{{"model", "JPEG of 67 KB to 224x224, " + mode},
             {"batch", 1},
             {"type", "uint8"},
             {"cores", cores},
             {"gx_images_per_second", 1e6 / gx_us},
             {"peer", nullptr},
             {"peer_images_per_second", nullptr},
             {"ratio", nullptr},
             {"goal", goal},
             {"met", nullptr},
             {"limit_images_per_second", nullptr},
             {"other_load_pct", load}};
    if (peer_us > 0) row["peer"] = peer, row["peer_images_per_second"] = 1e6 / peer_us;
    if (times) row["ratio"] = *times;
    const auto verdict =
        missing.empty() ? verdict_of(times, goal, Bound::at_least) : Verdict::not_judged;
    std::string text = fmt::format("  goal: {} at least {:.1f} x {}", mode, goal, peer);
    if (times) text += fmt::format(": {:.2f} x", *times);
    if (verdict == Verdict::not_judged) {
        row["why"] = missing.empty() ? why_not_judged(times, "") : missing;
        text += fmt::format("{} not judged: {}", times ? "," : ":",
                            row["why"].get_ref<const std::string&>());
    } else {
        row["met"] = verdict == Verdict::met;
        text += verdict == Verdict::met ? ", met" : ", MISSED";
    }
    std::printf("%s\n", text.c_str());
    return row;
}

/// Goals on one core.
Json judge_one_core(const Runners& runners, double load) {
    Json rows = Json::array();
    const auto beside = [&](const Runner& mine, const char* mode, const Runner* peer,
                            const char* kind, double goal, const char* missing) {
        const bool there = peer != nullptr && peer->there();
        rows.push_back(judge(
            mode, 1, median(mine.microseconds), there ? peer->name().c_str() : kind,
            there ? median(peer->microseconds) : 0,
            there ? std::optional(ratio(peer->microseconds, mine.microseconds)) : std::nullopt,
            goal, there ? "" : missing, load));
        if (runners.floor && runners.floor->there() && &mine == runners.plain.get())
            rows.back()["limit_images_per_second"] = 1e6 / median(runners.floor->microseconds);
    };
    beside(*runners.plain, "plain", quickest(runners.opencv), "OpenCV", 1.9,
           "gx_image_opencv was not built: it needs libopencv-imgcodecs-dev and "
           "libopencv-imgproc-dev");
    beside(*runners.plain, "plain", runners.floor.get(), "the floor", 0.9,
           "gx_floor_image was not built or has ended");
    beside(*runners.antialiased, "antialiased", quickest(runners.torchvision), "torchvision", 2,
           "no torchvision was measured; --torchvision fetches it, --python names a python3 that "
           "has it");
    return rows;
}

/// gx, plain, on two cores beside one, and the goal.
Json measure_two_cores(const Settings& s, const Bytes& file, const std::vector<Crop>& crops) {
    constexpr double goal = 1.9;
    const std::vector<int> cores = allowed_cores();
    OnCores one, two;
    const OtherLoad others({});
    for (int round = -1; round < s.rounds; ++round) {
        if (round == 0) one = two = {};
        one.round(file, crops, {cores.front()});
        if (cores.size() > 1) two.round(file, crops, {cores[0], cores[1]});
    }
    const double load = others.percent(), single = median(one.wall);
    if (cores.size() < 2)
        return judge("plain, two cores", 2, single, "one core", single, std::nullopt, goal,
                     "this process may run on one core alone", load);
    const double both = median(two.wall);
    const double by_processor = 2 * median(one.processor) / median(two.processor);
    std::printf(
        "  gx, plain, a thread on each core: one %.0f images/s, two %.0f, by the wall's time; "
        "%.2f x by\n  the threads' processor time, which waiting for others does not lengthen; "
        "others had %.0f %%\n",
        1e6 / single, 1e6 / both, by_processor, load);
    Json row = judge(
        "plain, two cores", 2, both, "one core", single, ratio(one.wall, two.wall), goal,
        load > quiet_pct ? fmt::format("others had {:.0f} % of the cores' time, which the threads "
                                       "wait for; measure again on a quiet machine",
                                       load)
                         : "",
        load);
    row["ratio_by_processor_time"] = by_processor;
    return row;
}

// ---- The table ----------------------------------------------------------------------------------

Json print_times(const Runners& runners) {
    Json times = Json::array();
    const Runner &plain = *runners.plain, &antialiased = *runners.antialiased;
    for (const Runner* r : runners.all()) {
        if (!r->there()) {
            std::printf("  %-40s not found\n", r->name().c_str());
            continue;
        }
        const double us = median(r->microseconds);
        const double of_plain = ratio(r->microseconds, plain.microseconds);
        const double of_antialiased = ratio(r->microseconds, antialiased.microseconds);
        std::printf(
            "  %-40s %7.0f us  %5.0f images/s  %4.2f x plain  %4.2f x "
            "antialiased\n",
            r->name().c_str(), us, 1e6 / us, of_plain, of_antialiased);
        times.push_back({{"name", r->name()},
                         {"microseconds", us},
                         {"images_per_second", 1e6 / us},
                         {"times_plain", of_plain},
                         {"times_antialiased", of_antialiased}});
    }
    return times;
}

/// An interpreter that has torchvision, which is installed once.
std::string fetch_torchvision() {
    const std::string folder = GX_STEP_PEERS;
    if (std::system(("'" GX_PYTORCH_SCRIPT "' '" + folder + "' torchvision").c_str()) != 0)
        throw gx::Error("without torchvision one goal is not judged: leave --torchvision out");
    return folder + "/venv/bin/python";
}

void measure(Settings s) {
    gx::expect_outputs({{"--json", s.json}});
    if (s.torchvision) s.python = fetch_torchvision();
    expect_interpreter(s.python);
    const Bytes file = make_file();
    const std::vector<Crop> crops = draw_crops(100);
    std::printf("a JPEG of %zu bytes, %d x %d, to %d x %d RGB of 8 bits, on %s\n", file.size(),
                image_size.width, image_size.height, output_size.width, output_size.height,
                cpu_name().c_str());
    const Folder folder(file, crops);
    Json all{{"benchmark", "image"},
             {"cpu", cpu_name()},
             {"file_bytes", file.size()},
             {"rounds", s.rounds}};
    double load = 0;
    {
        const Runners runners = start(s, file, crops, folder);
        load = take_turns(runners, crops.size(), s.rounds);
        std::printf("one core, processor time of an image:\n");
        all["times"] = print_times(runners);
        if (runners.floor && runners.floor->there()) {
            const int most = compare(*runners.plain, crops, folder.pixels());
            all["floor_difference_max"] = most;
            std::printf("  the floor's pixels differ from gx's plain ones by at most %d of 255\n",
                        most);
        }
        std::printf("  others had %.0f %% of the cores' time\n", load);
        all["rows"] = judge_one_core(runners, load);
    }
    all["rows"].push_back(measure_two_cores(s, file, crops));
    for (const auto& [side, what] : favours) {
        all["favours"][side].push_back(what);
        std::printf("favours %s: %s\n", side, what);
    }
    if (load > quiet_pct)
        std::printf(
            "the machine was busy: others had %.0f %% of its cores' time; read these figures as "
            "rough, and measure again on a quiet machine\n",
            load);
    if (!s.json.empty()) gx::write_file(s.json, all.dump(2) + "\n");
}

}  // namespace

int main(int argc, char** argv) {
    Settings s;
    CLI::App app(
        "From a JPEG of 67 KB to 224 x 224 RGB: gx, OpenCV, Pillow, torchvision and the floor.",
        "gx bench image");
    app.option_defaults()->always_capture_default();
    app.add_option("--json", s.json, "also write what was measured there");
    app.add_option("--rounds", s.rounds, "rounds of 100 crops")->check(gx::count_in(1, 1000));
    app.add_option("--python", s.python, "an interpreter that has Pillow, and maybe torchvision");
    app.add_flag("--torchvision", s.torchvision,
                 "fetch torchvision from PyPI for that: 5 GB, once");
    return gx::run_program(app, argc, argv, [&] { measure(s); });
}

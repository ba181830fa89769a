// outline_of: networks without a graph of their own: how many parameters, and where they are.
#pragma once

#include <array>        // the table
#include <cstdlib>      // strtod
#include <string>       // names
#include <string_view>  // names

#include <gx/sim/find_model.hpp>     // plain
#include <gx/sim/predict/units.hpp>  // lower

namespace gx::sim::predict {

/// Parameters in millions, and the shares of them that backward finishes first (a classifier) and
/// last (an embedding). Between these, gradients come evenly.
struct Outline {
    std::string_view name;  ///< letters and digits
    double millions, first = 0.05, last = 0;
};

/// Source: parameter counts of torchvision's and timm's documentation and of the papers; the shares
///         are arithmetic on layers: VGG-19's three linear layers are 123.6 of 143.7 million;
///         33,000 to 50,000 words of 512 to 1,024 numbers are a transformer's embedding.
inline constexpr std::array<Outline, 43> outlines{
    {{"vgg19", 143.67, 0.86},      {"vgg11", 132.86, 0.93},    {"vgg13", 133.05, 0.93},
     {"googlenet", 6.62, 0.15},    {"inceptionv1", 6.62, 0.15}, {"inceptionbn", 11.3, 0.09},
     {"inceptionv2", 11.2, 0.09},  {"inceptionv4", 42.68, 0.04},
     {"inceptionresnet", 55.84, 0.03}, {"densenet121", 7.98, 0.13}, {"densenet161", 28.68, 0.08},
     {"densenet169", 14.15, 0.12}, {"densenet201", 20.01, 0.1}, {"mobilenetv2", 3.5, 0.37},
     {"mobilenetv3", 5.48, 0.47},  {"mobilenet", 4.23, 0.24},  {"squeezenet", 1.25, 0.4},
     {"shufflenet", 2.28, 0.45},   {"xception", 22.86, 0.09},  {"nasnet", 88.75, 0.05},
     {"efficientnetb0", 5.29, 0.24}, {"efficientnetb4", 19.34, 0.09},
     {"efficientnetb7", 66.35, 0.04}, {"wideresnet2810", 36.5, 0}, {"wrn2810", 36.5, 0},
     {"seresnext101", 48.96, 0.04}, {"vitb", 86.57, 0.01},     {"vitl", 304.33, 0},
     {"vith", 632.05, 0},          {"deit", 86.57, 0.01},      {"swint", 28.29, 0.03},
     {"convnext", 28.59, 0.03},    {"transformerbig", 210, 0, 0.16},
     {"transformerbase", 61, 0, 0.3}, {"roberta", 125, 0, 0.31}, {"xlnet", 361, 0, 0.09},
     {"distilbert", 66, 0, 0.36},  {"gpt3", 175'000, 0, 0.004}, {"t5large", 770, 0, 0.04},
     {"t5base", 220, 0, 0.11},     {"maskrcnn", 44.4, 0.33},   {"ssd300", 35.6, 0.1},
     {"unet3d", 19.07, 0.05}}};

/// N of "345M", "1.3B" or "175 B" in a name, in millions; 0: none.
[[nodiscard]] inline double millions_in(std::string_view name) {
    const std::string text = lower(name);
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] < '0' || text[i] > '9') continue;
        char* end = nullptr;
        const double n = std::strtod(text.c_str() + i, &end);
        if (*end == ' ') ++end;
        const char after = *end == '\0' ? '\0' : end[1];
        const bool word = 'a' <= after && after <= 'z' && !std::string_view(end).substr(1)
                                                               .starts_with("illion");
        if (n > 0 && !word && (*end == 'm' || *end == 'b')) return *end == 'b' ? n * 1000 : n;
        i = static_cast<std::size_t>(end - text.c_str()) - 1;
        if (i + 1 >= text.size()) break;
    }
    return 0;
}

/// The longest name that opens `model`; null: none.
[[nodiscard]] inline const Outline* outline_of(std::string_view model) {
    const std::string said = sim::detail::find_model::plain(model);
    const Outline* best = nullptr;
    for (const Outline& o : outlines)
        if (said.starts_with(o.name) && (best == nullptr || o.name.size() > best->name.size()))
            best = &o;
    return best;
}

}  // namespace gx::sim::predict

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
///         33,000 to 50,000 words of 512 to 1,024 numbers are a transformer's embedding. A family
///         without a size is its usual one; DLRM's tables are not replicated, and not counted.
inline constexpr std::array<Outline, 136> outlines{
    {{"vgg19", 143.67, 0.86}, {"vgg11", 132.86, 0.93}, {"vgg13", 133.05, 0.93},
     {"googlenet", 6.62, 0.15}, {"inceptionv1", 6.62, 0.15}, {"inceptionbn", 11.3, 0.09},
     {"inceptionv2", 11.2, 0.09}, {"inceptionv4", 42.68, 0.04}, {"inceptionresnet", 55.84, 0.03},
     {"densenet121", 7.98, 0.13}, {"densenet161", 28.68, 0.08}, {"densenet169", 14.15, 0.12},
     {"densenet201", 20.01, 0.1}, {"mobilenetv2", 3.5, 0.37}, {"mobilenetv3", 5.48, 0.47},
     {"mobilenet", 4.23, 0.24}, {"squeezenet", 1.25, 0.4}, {"shufflenet", 2.28, 0.45},
     {"xception", 22.86, 0.09}, {"nasnet", 88.75, 0.05}, {"efficientnetb0", 5.29, 0.24},
     {"efficientnetb4", 19.34, 0.09}, {"efficientnetb7", 66.35, 0.04}, {"wideresnet2810", 36.5, 0},
     {"wrn2810", 36.5, 0}, {"seresnext101", 48.96, 0.04}, {"vitb", 86.57, 0.01},
     {"vitl", 304.33, 0}, {"vith", 632.05, 0}, {"deit", 86.57, 0.01}, {"swint", 28.29, 0.03},
     {"convnext", 28.59, 0.03}, {"transformerbig", 210, 0, 0.16}, {"transformerbase", 61, 0, 0.3},
     {"roberta", 125, 0, 0.31}, {"xlnet", 361, 0, 0.09}, {"distilbert", 66, 0, 0.36},
     {"gpt3", 175'000, 0, 0.004}, {"t5large", 770, 0, 0.04}, {"t5base", 220, 0, 0.11},
     {"maskrcnn", 44.4, 0.33}, {"ssd300", 35.6, 0.1}, {"unet3d", 19.07, 0.05},
     {"vgga", 132.86, 0.93}, {"vgg", 138.36, 0.89}, {"densenet", 7.98, 0.13},
     {"efficientnetb1", 7.79, 0.16}, {"efficientnetb2", 9.11, 0.15},
     {"efficientnetb3", 12.23, 0.13}, {"efficientnetb5", 30.39, 0.07},
     {"efficientnetb6", 43.04, 0.05}, {"efficientnetv2s", 21.46, 0.06},
     {"efficientnetv2m", 54.14, 0.02}, {"efficientnetv2l", 118.52, 0.01},
     {"efficientnet", 5.29, 0.24}, {"resnet20", 0.27, 0}, {"resnet32", 0.46, 0},
     {"resnet44", 0.66, 0}, {"resnet56", 0.85, 0}, {"resnet110", 1.73, 0}, {"resnet164", 1.7, 0},
     {"resnet200", 64.67, 0.03}, {"resnet269", 102.07, 0.02}, {"resnet1001", 10.2, 0},
     {"resnetv250", 25.56, 0.08}, {"resnetv2101", 44.55, 0.05}, {"resnetv2152", 60.2, 0.03},
     {"resnet", 25.56, 0.08}, {"wideresnet502", 68.88, 0.03}, {"wideresnet1012", 126.89, 0.02},
     {"wideresnet", 36.5, 0}, {"seresnet50", 28.09, 0.07}, {"seresnet101", 49.33, 0.04},
     {"senet154", 115.09, 0.02}, {"resnest50", 27.48, 0.08}, {"resnest101", 48.28, 0.04},
     {"vits", 22.05, 0.02}, {"vitti", 5.72, 0.03}, {"vit", 86.57, 0.01}, {"deits", 22.05, 0.02},
     {"deitti", 5.72, 0.03}, {"swins", 49.61, 0.02}, {"swinb", 87.77, 0.01},
     {"swinl", 196.53, 0.01}, {"swin", 28.29, 0.03}, {"convnexts", 50.22, 0.02},
     {"convnextb", 88.59, 0.01}, {"convnextl", 197.77, 0.01}, {"overfeat", 145.7, 0.9},
     {"lenet", 0.43, 0.93}, {"yolov5s", 7.2}, {"yolov5m", 21.2}, {"yolov5l", 46.5},
     {"yolov5x", 86.7}, {"yolov4", 64.4}, {"yolo", 61.9}, {"unet", 31.0}, {"3dunet", 19.07},
     {"nnunet", 31.0}, {"fasterrcnn", 41.8, 0.33}, {"retinanet", 37.97, 0.3}, {"ssd", 26.3, 0.1},
     {"deeplab", 61.0}, {"pspnet", 65.7}, {"hrnet", 65.9}, {"stablediffusion", 860},
     {"transformerxl", 257, 0, 0.3}, {"transformer", 210, 0, 0.16}, {"gnmt", 160, 0.2, 0.2},
     {"seq2seq", 160, 0.2, 0.2}, {"lstm", 66, 0.22, 0.22}, {"elmo", 93.6, 0, 0.1},
     {"bert", 336, 0, 0.09}, {"robertalarge", 355, 0, 0.15}, {"electra", 110, 0, 0.22},
     {"xlnetbase", 117, 0, 0.21}, {"albertlarge", 17.7, 0, 0.22}, {"albertxlarge", 58.7, 0, 0.07},
     {"albertxxlarge", 222.6, 0, 0.02}, {"gptj", 6053, 0.03, 0.03}, {"gptneox", 20555, 0.02, 0.02},
     {"gpt2", 124.4, 0, 0.31}, {"gpt", 117, 0, 0.27}, {"t5small", 60.5, 0, 0.27},
     {"t53b", 2850, 0, 0.01}, {"t511b", 11307, 0, 0}, {"t5", 220, 0, 0.11},
     {"llama", 6738, 0.02, 0.02}, {"mistral", 7242, 0.02, 0.02}, {"dlrm", 2.4}, {"ncf", 31.8},
     {"tacotron2", 28.2}, {"jasper", 333}, {"conformer", 118.8}, {"wav2vec", 95.0},
     {"whisper", 74}}};

/// N of "345M", "1.3B" or "175 B" in a name, in millions; 0: none.
[[nodiscard]] inline double millions_in(std::string_view name) {
    const std::string text = lower(name);
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] < '0' || text[i] > '9') continue;
        const bool version = i > 0 && text[i - 1] == 'v';
        char* end = nullptr;
        const double n = std::strtod(text.c_str() + i, &end);
        if (*end == ' ') ++end;
        const char after = *end == '\0' ? '\0' : end[1];
        const bool word = 'a' <= after && after <= 'z' && !std::string_view(end).substr(1)
                                                               .starts_with("illion");
        if (n > 0 && !word && !version && (*end == 'm' || *end == 'b'))
            return *end == 'b' ? n * 1000 : n;
        i = static_cast<std::size_t>(end - text.c_str()) - 1;
        if (i + 1 >= text.size()) break;
    }
    return 0;
}

/// The longest name that opens `model`; null: none.
[[nodiscard]] inline const Outline* outline_opening(std::string_view model) {
    const std::string said = sim::detail::find_model::plain(model);
    const Outline* best = nullptr;
    for (const Outline& o : outlines)
        if (said.starts_with(o.name) && (best == nullptr || o.name.size() > best->name.size()))
            best = &o;
    return best;
}
/// The same, else the longest name of at least four letters inside: "CLIP ViT-B/32", "bi-LSTM".
[[nodiscard]] inline const Outline* outline_of(std::string_view model) {
    if (const Outline* opens = outline_opening(model)) return opens;
    const std::string said = sim::detail::find_model::plain(model);
    const Outline* best = nullptr;
    for (const Outline& o : outlines)
        if (o.name.size() > 3 && has(said, o.name) &&
            (best == nullptr || o.name.size() > best->name.size()))
            best = &o;
    return best;
}

}  // namespace gx::sim::predict

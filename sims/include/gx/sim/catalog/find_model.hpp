// find_model: the graph of a published network, by any usual name.
#pragma once

#include <array>        // the table
#include <string>       // names
#include <string_view>  // names
#include <vector>       // the known names

#include <gx/core/error.hpp>       // Error
#include <gx/io/nearest.hpp>       // unknown_name
#include <gx/model/albert.hpp>     // AlbertBase
#include <gx/model/alexnet.hpp>    // AlexNet
#include <gx/model/bert.hpp>       // BertBase, BertLarge
#include <gx/model/concept.hpp>    // graph
#include <gx/model/gpt.hpp>        // Gpt2Small ... Gpt2Xl
#include <gx/model/inception.hpp>  // InceptionV3
#include <gx/model/resnet.hpp>     // ResNet
#include <gx/model/resnext.hpp>    // ResNeXt50, ResNeXt101
#include <gx/model/vgg.hpp>        // Vgg

namespace gx::sim {

/// A network and its name in papers.
struct KnownModel {
    std::string_view name;
    Graph (*make)(const GraphOptions&);
    GraphTrouble (*trouble)(const GraphOptions&);  ///< of a graph that it cannot make
};
template <class M>
[[nodiscard]] constexpr KnownModel known_model(std::string_view name) {
    return {name, graph<M>, gx::trouble<M>};
}

/// Every network that find_model knows. BERT is timed with its heads, as it is trained.
inline constexpr std::array<KnownModel, 21> models{
    known_model<ResNet18>("ResNet-18"),
    known_model<ResNet34>("ResNet-34"),
    known_model<ResNet50>("ResNet-50"),
    known_model<ResNet<50, StrideAt::conv1x1>>("ResNet-50 v1"),
    known_model<ResNet101>("ResNet-101"),
    known_model<ResNet152>("ResNet-152"),
    known_model<ResNeXt50>("ResNeXt-50"),
    known_model<ResNeXt101>("ResNeXt-101"),
    known_model<InceptionV3>("Inception-v3"),
    known_model<Vgg11>("VGG-11"),
    known_model<Vgg13>("VGG-13"),
    known_model<Vgg16>("VGG-16"),
    known_model<Vgg19>("VGG-19"),
    known_model<AlexNet>("AlexNet"),
    known_model<BertBasePretraining>("BERT-base"),
    known_model<BertLargePretraining>("BERT-large"),
    known_model<AlbertBase>("ALBERT-base"),
    known_model<Gpt2Small>("GPT-2 small"),
    known_model<Gpt2Medium>("GPT-2 medium"),
    known_model<Gpt2Large>("GPT-2 large"),
    known_model<Gpt2Xl>("GPT-2 XL")};

namespace detail::find_model {

/// Letters and digits, in lower case.
[[nodiscard]] inline std::string plain(std::string_view text) {
    std::string out;
    for (const char c : text) {
        if ('A' <= c && c <= 'Z') out += static_cast<char>(c - 'A' + 'a');
        if (('a' <= c && c <= 'z') || ('0' <= c && c <= '9')) out += c;
    }
    return out;
}

}  // namespace detail::find_model

/// The network so named; case, spaces and hyphens do not matter: "resnet50" is "ResNet-50".
/// Errors: gx::Error with the nearest names.
[[nodiscard]] inline const KnownModel& find_model(std::string_view name) {
    const std::string typed = detail::find_model::plain(name);
    std::vector<std::string> plain;
    std::vector<std::string_view> known, spelt;
    for (const KnownModel& m : models) {
        plain.push_back(detail::find_model::plain(m.name));
        if (plain.back() == typed) return m;
        spelt.push_back(m.name);
    }
    known.assign(plain.begin(), plain.end());
    const std::string_view near = suggested_name(typed, known);
    for (std::size_t i = 0; i < known.size(); ++i)
        if (known[i] == near) spelt = {models[i].name};
    throw Error(near.empty() ? unknown_name("model", name, spelt)
                             : "unknown model '" + std::string(name) + "': did you mean '" +
                                   std::string(spelt[0]) + "'?");
}

}  // namespace gx::sim

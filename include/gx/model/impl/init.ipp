// Initial values of parameters and running statistics.
#pragma once

#include <algorithm>  // fill
#include <cmath>      // sqrt
#include <string>     // stream names

#include <gx/core/contract.hpp>  // GX_EXPECT
#include <gx/core/rng.hpp>       // Rng
#include <gx/model/init.hpp>     // the declarations

namespace gx {

GX_DECL void initial_parameter(const Parameter& parameter, std::uint64_t seed,
                               std::span<float> values) {
    GX_EXPECT(values.size() == static_cast<std::size_t>(parameter.count),
              "a parameter is filled whole: pass as many elements as it counts");
    if (parameter.zero || parameter.role != ParameterRole::weight) {
        const bool one = parameter.role == ParameterRole::gamma && !parameter.zero;
        std::fill(values.begin(), values.end(), one ? 1.0f : 0.0f);
        return;
    }
    const Rng rng(seed, "parameter " + std::string(parameter.name.view()));
    const auto deviation = static_cast<float>(std::sqrt(2.0 / parameter.fan_in));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = deviation * rng.normal(i);
}

GX_DECL void initial_parameters(const Graph& graph, std::uint64_t seed,
                                std::span<float> canonical) {
    GX_EXPECT(canonical.size() == static_cast<std::size_t>(graph.parameter_elements()),
              "the flat vector holds every parameter of the graph, and nothing else");
    for (const Parameter& p : graph.parameters)
        initial_parameter(p, seed,
                          canonical.subspan(static_cast<std::size_t>(p.offset),
                                            static_cast<std::size_t>(p.count)));
}

GX_DECL void initial_statistics(const Graph& graph, std::span<float> statistics) {
    GX_EXPECT(statistics.size() == static_cast<std::size_t>(graph.statistic_elements()),
              "the flat vector holds every running statistic of the graph, and nothing else");
    for (const Statistic& s : graph.statistics) {
        const auto values = statistics.subspan(static_cast<std::size_t>(s.offset),
                                               static_cast<std::size_t>(s.count));
        std::fill(values.begin(), values.end(), s.initial);
    }
}

}  // namespace gx

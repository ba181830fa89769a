// CaseModel: one case, read and ready to be predicted under any constants.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tools/predict/case_file.hpp>   // Case, Point
#include <tools/predict/conditions.hpp>  // Conditions
#include <tools/predict/measure.hpp>     // Measure
#include <tools/predict/model_work.hpp>  // ModelWork
#include <tools/predict/stack.hpp>       // Calibration
#include <tools/predict/step_model.hpp>  // StepModel

namespace gx::tools::predict {

struct PredictedPoint {
    int index = 0, gpus = 0;
    int machines = 1;    ///< of it or of the given point that it is predicted from: the more
    bool fewer = false;  ///< of fewer GPUs or machines than that point; more of one: it gains
    Between between = Between::links;  ///< GPUs of those machines
    double value = 0;
    std::string unit{};
    double efficiency_pct = 0;         ///< rate of a GPU, as a share of the base's
    double anchor_pct = 100;           ///< the same of the given point that it is predicted from
    double low_pct = 0, high_pct = 0;  ///< 80 % interval of the efficiency
    double low_value = 0, high_value = 0;  ///< and of the value that follows from it
    double step_ms = 0, exposed_ms = 0, floor_ms = 0;
    double formula_pct = 0;  ///< for the score: the base's step plus the wire, nothing hidden
};

/// Either points, one for each target, or an error.
struct Prediction {
    std::string id{}, file{}, machine{}, stack{}, profile{}, why{};
    std::vector<std::string> assumed{};  ///< for what the conditions leave out, or is not read
    std::vector<PredictedPoint> points{};
    std::string error{};
};

/// What a case says, with defaults where it says nothing. The case, the network and the constants,
/// which may change between calls, stay where they are as long as the model.
/// Errors: gx::Error naming the field, what it holds and what is expected.
class CaseModel {
public:
    /// `network`: measured, in place of that of the conditions.
    CaseModel(const Case& given, const Calibration& k, WireTime& wire,
              const sim::ClusterSpec* network = nullptr);
    CaseModel(const CaseModel&) = delete;
    CaseModel& operator=(const CaseModel&) = delete;

    /// Under the constants as they are now.
    [[nodiscard]] Prediction run();
    /// The points of the same alone, without the words; `as`: whose gradients go that way.
    [[nodiscard]] std::vector<PredictedPoint> points(std::optional<Scheme> as = {});
    /// The stack under these constants.
    [[nodiscard]] Stack stack(const Calibration& k) const { return find_stack(c_, k); }

private:
    [[nodiscard]] const Point& find_base() const;
    [[nodiscard]] Hardware hardware(const Stack& stack);
    void check_units() const;
    void check_groups() const;
    void settle_gpus_per_node();
    void settle_global_batch();
    void settle_batch();
    void settle_gradient();
    [[nodiscard]] bool name_unread_size();
    void name_taken_model();
    [[nodiscard]] Group group(const Point& p) const;
    [[nodiscard]] static int gpus_of(const Point& p, const Group& g);
    [[nodiscard]] const Point& anchor(const Point& target) const;
    [[nodiscard]] double samples(const Point& p) const;
    [[nodiscard]] double samples_unchecked(const Point& p) const;
    [[nodiscard]] double global_batch() const;
    [[nodiscard]] double step_ms(const Point& p);
    [[nodiscard]] double step_ms_unchecked(const Point& p);
    [[nodiscard]] double epochs();
    [[nodiscard]] double sequence() const;
    [[nodiscard]] double tokens_step_ms(double sequences, double rate);
    [[nodiscard]] double roofline_ms(double batch);
    [[nodiscard]] double time_ratio(double batch, double base);
    void remark(const std::string& text);
    [[nodiscard]] PredictedPoint point(const Point& target, StepModel& model);
    [[nodiscard]] double value_factor(double per_gpu, double gpus, double time) const;
    [[nodiscard]] double efficiency_of(const Point& p);
    [[nodiscard]] std::string why(const Stack& stack, const Hardware& h,
                                  const StepModel& model) const;

    const Case& case_;
    const Calibration& k_;
    WireTime& wire_;
    const sim::ClusterSpec* network_;
    const Point& base_;
    Conditions c_;
    Measure measure_;
    ModelWork work_{};
    bool fixed_global_ = false;
    std::string machine_{};
    std::vector<std::string> settled_{};
    std::vector<std::pair<std::pair<double, double>, double>> ratios_{};  ///< asked before
};

}  // namespace gx::tools::predict

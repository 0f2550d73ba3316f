//! Metric families put together by hand, for collectors over [`Cells`](super::Cells).

use prometheus::core::Desc;
use prometheus::proto::{Bucket, Counter, Histogram, LabelPair, Metric, MetricFamily, MetricType};

/// A metric: its name, its kind, its help text and its labels, sorted.
pub(super) struct Family {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) kind: MetricType,
    pub(super) labels: &'static [&'static str],
}

impl Family {
    /// The descriptor for the registry.
    pub(super) fn desc(&self) -> Desc {
        let labels = self.labels.iter().map(|label| (*label).to_owned()).collect();
        Desc::new(self.name.to_owned(), self.help.to_owned(), labels, Default::default())
            .unwrap_or_else(|error| unreachable!("{}: {error}", self.name))
    }

    /// The family with its series.
    pub(super) fn with(&self, series: Vec<Metric>) -> MetricFamily {
        let mut family = MetricFamily::default();
        family.set_name(self.name.to_owned());
        family.set_help(self.help.to_owned());
        family.set_field_type(self.kind);
        family.set_metric(series);
        family
    }

    /// A series with the values of the labels, in the order of their names.
    fn metric(&self, values: &[&str]) -> Metric {
        debug_assert_eq!(self.labels.len(), values.len(), "{}", self.name);
        let pairs = self.labels.iter().zip(values).map(|(name, value)| {
            let mut pair = LabelPair::default();
            pair.set_name((*name).to_owned());
            pair.set_value((*value).to_owned());
            pair
        });
        Metric::from_label(pairs.collect())
    }

    /// A series of a counter.
    pub(super) fn counter(&self, values: &[&str], count: u64) -> Metric {
        let mut metric = self.metric(values);
        let mut counter = Counter::default();
        counter.set_value(count as f64);
        metric.set_counter(counter);
        metric
    }

    /// A series of a histogram; `counts` has one more than there are bounds, each bucket by itself.
    pub(super) fn histogram(&self, values: &[&str], bounds: &[f64], counts: &[u64], sum: f64) -> Metric {
        let mut so_far = 0_u64;
        let mut buckets = Vec::with_capacity(bounds.len());
        for (bound, count) in bounds.iter().zip(counts) {
            so_far = so_far.wrapping_add(*count);
            let mut bucket = Bucket::default();
            bucket.set_cumulative_count(so_far);
            bucket.set_upper_bound(*bound);
            buckets.push(bucket);
        }
        let mut histogram = Histogram::default();
        histogram.set_bucket(buckets);
        // The total is that of the same reading, so that no bucket ever exceeds it.
        histogram.set_sample_count(counts.iter().fold(0, |total, count| total.wrapping_add(*count)));
        histogram.set_sample_sum(sum);
        let mut metric = self.metric(values);
        metric.set_histogram(histogram);
        metric
    }
}

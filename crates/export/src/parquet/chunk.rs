//! A column's chunk of a group of rows: a dictionary and the places in it, values as they are where
//! hardly any repeats, differences, bits.

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, Type, ZstdLevel};
use parquet::column::page::{CompressedPage, Page, PageWriter as _};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;
use zstd::bulk::Compressor;

use super::dictionary::Places;
use super::{deltas, runs};

/// Makes chunks.
pub(super) struct Chunks {
    compressor: Compressor<'static>,
    level: ZstdLevel,
    /// A page in the making.
    page: Vec<u8>,
}

/// What a chunk is made of.
#[derive(Debug, Clone, Copy)]
pub(super) enum Content<'a> {
    /// Each value once, and which one each row has. `levels`: by row whether it has one, unless all
    /// have.
    Once { places: &'a Places, levels: Option<&'a [u8]>, range: Range },
    /// Numbers of which each is like the one before; every row has one.
    Deltas(&'a [i64]),
    /// Every row has one.
    Bools(&'a [bool]),
}

/// The least and the greatest number of a chunk.
pub(super) type Range = Option<(i64, i64)>;

impl Chunks {
    /// Compressed at this level.
    pub(super) fn new(level: i32) -> Result<Self, ParquetError> {
        let compressor = Compressor::new(level).map_err(|e| ParquetError::External(e.into()))?;
        let level = ZstdLevel::try_new(level)?;
        Ok(Self { compressor, level, page: Vec::new() })
    }

    /// The chunk of a column.
    pub(super) fn chunk(
        &mut self,
        column: &ColumnDescPtr,
        content: Content<'_>,
    ) -> Result<(Bytes, ColumnCloseResult), ParquetError> {
        let mut sink = TrackedWrite::new(Vec::new());
        let mut pages = SerializedPageWriter::new(&mut sink);
        let (mut plain_size, mut dictionary_size) = (0, 0);
        let dictionary = match content {
            Content::Once { places, .. } => dictionary(places),
            _ => None,
        };
        if let Some(places) = dictionary {
            let page = Page::DictionaryPage {
                buf: self.compressed(&places.plain)?,
                num_values: places.count() as u32,
                encoding: Encoding::PLAIN,
                is_sorted: false,
            };
            let written = pages.write_page(CompressedPage::new(page, places.plain.len()))?;
            plain_size += written.uncompressed_size;
            dictionary_size = written.compressed_size;
        }
        let mut page = std::mem::take(&mut self.page);
        page.clear();
        let (rows, encoding, statistics) = match content {
            Content::Deltas(values) => {
                deltas::write(values, &mut page);
                let range = values.iter().copied().min().zip(values.iter().copied().max());
                (values.len(), Encoding::DELTA_BINARY_PACKED, statistics(column, range, 0))
            }
            Content::Bools(values) => {
                let byte = |bits: &[bool]| {
                    bits.iter().rev().fold(0, |byte, bit| byte << 1 | u8::from(*bit))
                };
                page.extend(values.chunks(8).map(byte));
                (values.len(), Encoding::PLAIN, None)
            }
            Content::Once { places, levels, range } => {
                if let Some(levels) = levels {
                    page.extend_from_slice(&[0; 4]);
                    runs::write(levels, 1, &mut page);
                    let length = (page.len() - 4) as u32;
                    page[..4].copy_from_slice(&length.to_le_bytes());
                }
                let encoding = if dictionary.is_some() {
                    let width = runs::place_width(places.count());
                    page.push(width as u8);
                    runs::write(&places.rows, width, &mut page);
                    Encoding::RLE_DICTIONARY
                } else {
                    places.rows.iter().for_each(|row| page.extend_from_slice(places.value(*row)));
                    Encoding::PLAIN
                };
                let rows = levels.map_or(places.rows.len(), <[u8]>::len);
                (rows, encoding, statistics(column, range, rows - places.rows.len()))
            }
        };
        let data = Page::DataPage {
            buf: self.compressed(&page)?,
            num_values: rows as u32,
            encoding,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        let written = pages.write_page(CompressedPage::new(data, page.len()))?;
        self.page = page;
        plain_size += written.uncompressed_size;
        let bytes: Bytes = sink.into_inner()?.into();
        let mut encodings = vec![Encoding::RLE, encoding];
        if dictionary.is_some() {
            encodings.push(Encoding::PLAIN);
        }
        let mut metadata = ColumnChunkMetaData::builder(column.clone())
            .set_compression(Compression::ZSTD(self.level))
            .set_encodings(encodings)
            .set_num_values(rows as i64)
            .set_total_compressed_size(bytes.len() as i64)
            .set_total_uncompressed_size(plain_size as i64)
            .set_data_page_offset(dictionary_size as i64)
            .set_dictionary_page_offset(dictionary.map(|_| 0));
        if let Some(statistics) = statistics {
            metadata = metadata.set_statistics(statistics);
        }
        let close = ColumnCloseResult {
            bytes_written: bytes.len() as u64,
            rows_written: rows as u64,
            metadata: metadata.build()?,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        Ok((bytes, close))
    }

    fn compressed(&mut self, bytes: &[u8]) -> Result<Bytes, ParquetError> {
        let compressed = self.compressor.compress(bytes);
        Ok(compressed.map_err(|e| ParquetError::External(e.into()))?.into())
    }
}

/// The values for a dictionary, unless hardly any repeats: it then takes more room than it spares.
fn dictionary(places: &Places) -> Option<&Places> {
    (1..places.rows.len() / 3 * 2).contains(&places.count()).then_some(places)
}

fn statistics(column: &ColumnDescPtr, range: Range, nulls: usize) -> Option<Statistics> {
    let nulls = Some(nulls as u64);
    range.map(|(least, greatest)| match column.physical_type() {
        Type::INT32 => {
            Statistics::int32(Some(least as i32), Some(greatest as i32), None, nulls, false)
        }
        _ => Statistics::int64(Some(least), Some(greatest), None, nulls, false),
    })
}
